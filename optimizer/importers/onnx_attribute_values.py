"""Which values of an attribute mean something, beyond its type: flags are 0 or 1, strings among a few, counts positive.

Schemas say this in prose only. What depends on the shapes of the operands is checked where these are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import onnx

from optimizer.errors import GraphError
from optimizer.importers.onnx_checks import node_label


@dataclass(frozen=True)
class Rule:
    """What every number or string of an attribute has to be."""

    holds: Callable[[Any], bool]
    wanted: str


def _among(*choices: int | str) -> Rule:
    return Rule(lambda value: value in choices, " or ".join(str(choice) for choice in choices))


def _at_least(low: int) -> Rule:
    return Rule(lambda value: value >= low, f"at least {low}")


_FLAG = _among(0, 1)
_TYPES = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
_TYPE = Rule(lambda value: value in _TYPES, "a number of an element type")
_NO_TYPE = Rule(lambda value: value in {*_TYPES, 0}, "a number of an element type, or 0")
_ANY = Rule(lambda _: True, "anything")
_POSITIVE, _NATURAL = _at_least(1), _at_least(0)
_REDUCTIONS = _among("none", "add", "mul", "max", "min")
_LOSSES = _among("none", "mean", "sum")
_DIRECTIONS = _among("forward", "reverse", "bidirectional")


def _all(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


RULES: dict[str, Rule] = {
    **_all(
        "align_corners allowzero antialias causal ceil_mode center_point_box count_include_pad detect_negative "
        "detect_positive do_rotary exclude_outside exclusive fmod input_forget interleaved inverse is_case_sensitive "
        "is_causal is_packed_batching is_test keepdims largest layout linear_before_reset new_axis "
        "noop_with_empty_axes onesided output_sequence past_present_share_buffer periodic reverse rotary_interleaved "
        "saturate select_last_index sliding_window_cache sorted spatial storage_order training_mode transA transB "
        "transBatchA transBatchB unidirectional upper weight_prepacked",
        _FLAG,
    ),
    **_all(
        "K N blocksize dilations group hidden_size kernel_shape num_groups num_outputs num_scan_inputs offset_group "
        "output_height output_shape output_width p pooled_shape qkv_hidden_sizes sample_size size strides "
        "Attention.kv_num_heads Attention.num_heads Attention.q_num_heads GroupQueryAttention.kv_num_heads "
        "GroupQueryAttention.num_heads MatMulNBits.block_size MultiHeadAttention.num_heads",
        _POSITIVE,
    ),
    **_all(
        "accuracy_level batch_dims block_size epsilon k_norm_epsilon kv_cache_bit_width max_skip_count num_heads "
        "output_padding pads q_norm_epsilon qk_norm_epsilon ratio rotary_embedding_dim sampling_ratio softcap TopK.k",
        _NATURAL,
    ),
    **_all("dtype output_datatype softmax_precision stash_type to", _TYPE),
    **_all("output_dtype precision", _NO_TYPE),
    "LpNormalization.p": _among(1, 2),
    "Pad.pads": _ANY,  # negative ones crop
    "approximate": _among("none", "tanh"),
    "auto_pad": _among("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "bits": _among(2, 4, 8),
    "BitShift.direction": _among("LEFT", "RIGHT"),
    **_all("GRU.direction LSTM.direction RNN.direction", _DIRECTIONS),
    "case_change_action": _among("LOWER", "UPPER", "NONE"),
    "Resize.coordinate_transformation_mode": _among(
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_half_pixel_for_nn", "tf_crop_and_resize",
    ),
    "RoiAlign.coordinate_transformation_mode": _among("half_pixel", "output_half_pixel"),
    **_all("k_quant_type v_quant_type", _among("NONE", "PER_TENSOR", "PER_CHANNEL")),
    "keep_aspect_ratio_policy": _among("stretch", "not_larger", "not_smaller"),
    "local_window_size": _at_least(-1),
    "mask_index_type": _among(0, 1, 2),
    "DepthToSpace.mode": _among("DCR", "CRD"),
    "GridSample.mode": _among("linear", "bilinear", "nearest", "cubic", "bicubic"),
    "Pad.mode": _among("constant", "reflect", "edge", "wrap"),
    "Resize.mode": _among("nearest", "linear", "cubic"),
    "RoiAlign.mode": _among("avg", "max"),
    "TfIdfVectorizer.mode": _among("TF", "IDF", "TFIDF"),
    "Upsample.mode": _among("nearest", "linear", "bilinear"),  # as opset 1 called it
    "nearest_mode": _among("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "padding_mode": _among("zeros", "border", "reflection"),
    "pixel_format": _among("RGB", "BGR", "Grayscale"),
    **_all("qk_matmul_output_mode qk_output", _among(0, 1, 2, 3)),
    **_all("ScatterElements.reduction ScatterND.reduction", _REDUCTIONS),
    **_all("NegativeLogLikelihoodLoss.reduction SoftmaxCrossEntropyLoss.reduction", _LOSSES),
    "smooth_softmax": _among(-1, 0, 1),
}  # fmt: skip
"""Attribute, or `OpType.attribute` where ops differ -> its rule."""


def check_value(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    """GraphError where an attribute of an op that is known has a value without a meaning."""
    rule = RULES.get(f"{node.op_type}.{attribute.name}") or RULES.get(attribute.name)
    if rule is None:
        return
    for value in _plain(attribute):
        if not rule.holds(value):
            raise GraphError(
                f"{node_label(node)}: attribute '{attribute.name}' must be {rule.wanted}, not {value!r}",
                node=node.name or None,
            )


def _plain(attribute: onnx.AttributeProto) -> Iterable[Any]:
    """The numbers and strings that an attribute holds."""
    value = onnx.helper.get_attribute_value(attribute)
    values = value if isinstance(value, Iterable) and not isinstance(value, bytes | str) else (value,)
    return (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)
