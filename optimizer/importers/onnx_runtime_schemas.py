"""Schemas of the ops of onnxruntime that are read, which ONNX has none of.

One line for each: operands and results as `name:type`, `?` where it may be absent; attributes as `name:kind`, `!` where
it must be there, `=` before what its absence means. A test compares them with what onnxruntime says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx.defs import OpSchema
from onnx.helper import make_attribute

MICROSOFT = "com.microsoft"
_KINDS = {
    "i": OpSchema.AttrType.INT,
    "f": OpSchema.AttrType.FLOAT,
    "s": OpSchema.AttrType.STRING,
    "is": OpSchema.AttrType.INTS,
    "fs": OpSchema.AttrType.FLOATS,
}
_FLOATS = ("float", "float16", "bfloat16", "double")
_BYTES = ("int8", "uint8")
_QUANTISED = (*_BYTES, "int16", "uint16", "int4", "uint4")
_T = {"T": _FLOATS}
_WINDOW = "auto_pad:s=NOTSET dilations:is group:i=1 kernel_shape:is pads:is strides:is"
_QLINEAR = (
    "A:T A_scale:tensor(float) A_zero_point:T? B:T B_scale:tensor(float) B_zero_point:T? C_scale:tensor(float) "
    "C_zero_point:T?"
)


def _parameters(text: str) -> list[OpSchema.FormalParameter]:
    options = OpSchema.FormalParameterOption
    return [
        OpSchema.FormalParameter(
            name, kind.rstrip("?"), param_option=options.Optional if kind.endswith("?") else options.Single
        )
        for name, _, kind in (entry.partition(":") for entry in text.split())
    ]


def _attributes(text: str) -> list[OpSchema.Attribute]:
    return [_attribute(name, kind) for name, _, kind in (entry.partition(":") for entry in text.split())]


def _attribute(name: str, kind: str) -> OpSchema.Attribute:
    kind, _, default = kind.partition("=")
    if not default:
        return OpSchema.Attribute(name, _KINDS[kind.rstrip("!")], required=kind.endswith("!"))
    value = {"i": int, "f": float, "s": str}[kind](default)
    return OpSchema.Attribute(name, make_attribute(name, value))


def _schema(
    name: str, operands: str, results: str, types: Mapping[str, Iterable[str]], attributes: str = "",
    domain: str = MICROSOFT,
) -> OpSchema:  # fmt: skip
    return OpSchema(
        name,
        domain,
        1,
        inputs=_parameters(operands),
        outputs=_parameters(results),
        type_constraints=[(variable, [f"tensor({t})" for t in kinds], "") for variable, kinds in types.items()],
        attributes=_attributes(attributes),
    )


def _simplified(domain: str) -> OpSchema:
    types = {"T": _FLOATS, "U": ("float", "double"), "V": _FLOATS}
    attributes = "axis:i=-1 epsilon:f=1e-5 stash_type:i=1"
    name = "SimplifiedLayerNormalization"
    return _schema(name, "X:T scale:V", "Y:V inv_std_var:U?", types, attributes, domain)


RUNTIME_SCHEMAS = {
    (schema.domain, schema.name): schema
    for schema in (
        _schema("Gelu", "X:T", "Y:T", _T),
        _schema("FastGelu", "X:T bias:T?", "Y:T", _T),
        _schema("BiasGelu", "A:T B:T", "C:T", _T),
        _schema("QuickGelu", "X:T", "Y:T", _T, "alpha:f=1.702"),
        _schema("FusedMatMul", "A:T B:T", "Y:T", _T, "alpha:f=1 transA:i=0 transB:i=0 transBatchA:i=0 transBatchB:i=0"),
        _schema(
            "FusedGemm", "A:T B:T C:T?", "Y:T", {"T": (*_FLOATS, "int32", "int64", "uint32", "uint64")},
            "activation:s activation_alpha:f activation_beta:f activation_gamma:f alpha:f=1 beta:f=1 transA:i=0 "
            "transB:i=0",
        ),
        _schema("FusedConv", "X:T W:T B:T? Z:T?", "Y:T", _T, f"activation:s activation_params:fs {_WINDOW}"),
        _schema(
            "EmbedLayerNormalization",
            "input_ids:T1 segment_ids:T1? word_embedding:T position_embedding:T segment_embedding:T? gamma:T beta:T "
            "mask:T1? position_ids:T1?",
            "output:T mask_index:T1? embedding_sum:T?", {"T1": ("int32",), **_T}, "epsilon:f=1e-12 mask_index_type:i",
        ),
        _schema(
            "SkipLayerNormalization", "input:T skip:T gamma:T beta:T? bias:T?",
            "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?", {**_T, "U": ("float",)}, "epsilon:f=1e-12",
        ),
        _schema(
            "SkipSimplifiedLayerNormalization", "input:T skip:T gamma:T bias:T?",
            "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?", {**_T, "U": ("float",)}, "epsilon:f=1e-12",
        ),
        _simplified(MICROSOFT),
        _simplified(""),
        _schema(
            "Attention", "input:T weights:T bias:T? mask_index:M? past:T? attention_bias:T? past_sequence_length:M?",
            "output:T present:T?", {**_T, "M": ("int32",)},
            "do_rotary:i mask_filter_value:f num_heads:i! past_present_share_buffer:i qkv_hidden_sizes:is "
            "rotary_embedding_dim:i scale:f unidirectional:i=0",
        ),
        _schema(
            "MultiHeadAttention",
            "query:T key:T? value:T? bias:T? key_padding_mask:M? attention_bias:T? past_key:T? past_value:T? "
            "past_sequence_length:M? cache_indirection:M?",
            "output:T present_key:T? present_value:T? qk:QK?", {**_T, "QK": _FLOATS, "M": ("int32",)},
            "mask_filter_value:f num_heads:i! scale:f unidirectional:i=0",
        ),
        _schema(
            "GroupQueryAttention",
            "query:T key:T? value:T? past_key:T_CACHE? past_value:T_CACHE? seqlens_k:M total_sequence_length:M "
            "cos_cache:T? sin_cache:T? position_ids:tensor(int64)? attention_bias:T? head_sink:T? k_scale:T_KV_SCALE? "
            "v_scale:T_KV_SCALE? q_norm_weight:T? k_norm_weight:T? query_seqlens:M?",
            "output:T present_key:T_CACHE? present_value:T_CACHE? output_qk:T?",
            {**_T, "T_CACHE": (*_FLOATS, "float8e4m3fn", *_BYTES), "T_KV_SCALE": ("float",), "M": ("int32",)},
            "causal:i=1 do_rotary:i k_norm_epsilon:f k_quant_type:s=NONE kv_cache_bit_width:i kv_num_heads:i! "
            "local_window_size:i=-1 num_heads:i! q_norm_epsilon:f qk_norm_epsilon:f=1e-6 qk_output:i=0 "
            "rotary_interleaved:i scale:f sliding_window_cache:i=0 smooth_softmax:i=-1 softcap:f v_quant_type:s=NONE",
        ),
        _schema(
            "RotaryEmbedding", "input:T position_ids:M cos_cache:T sin_cache:T", "output:T",
            {**_T, "M": ("int64",)},
            "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
        ),
        _schema("DequantizeLinear", "x:T1 x_scale:T2 x_zero_point:T1?", "y:T2",
                {"T1": (*_QUANTISED, "int32"), "T2": _FLOATS}, "axis:i"),
        _schema("QuantizeLinear", "x:T1 y_scale:T1 y_zero_point:T2?", "y:T2",
                {"T1": _FLOATS, "T2": _QUANTISED}, "axis:i"),
        _schema("QLinearAdd", _QLINEAR, "C:T", {"T": _BYTES}),
        _schema("QLinearMul", _QLINEAR, "C:T", {"T": _BYTES}),
        _schema(
            "MatMulNBits", "A:T1 B:T2 scales:T1 zero_points:T3? g_idx:T4? bias:T1?", "Y:T1",
            {"T1": _FLOATS, "T2": ("uint8",), "T3": (*_FLOATS, "uint8"), "T4": ("int32",)},
            "K:i! N:i! accuracy_level:i=0 bits:i=4 block_size:i! weight_prepacked:i=0",
        ),
    )
}  # fmt: skip
"""(domain, op type) -> schema; the op is the same in every version of the domain."""
