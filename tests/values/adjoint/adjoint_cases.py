"""One or more small calls of every op of the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from optimizer.families.elementwise.rows import BINARY, UNARY, UNARY_PARAMS
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import op_names

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An op with attributes and the shapes of its operands."""

    op: str
    shapes: tuple[Shape, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    whole: tuple[int, ...] = ()
    """Operands of integers."""

    def dtype(self, index: int) -> DType:
        return DType.U32 if index in self.whole else DType.F32


def case(op: str, *shapes: Shape, whole: tuple[int, ...] = (), **attrs: Any) -> Case:
    return Case(f"ttnn.{op}", shapes, attrs, whole)


X = (2, 3, 4, 6)
IMAGE: dict[str, Any] = {"batch_size": 2, "input_height": 7, "input_width": 6}
FLAT = (1, 1, 84, 4)
"""Two images of 7 x 6, 4 channels."""


def convolution(op: str, weight: Shape, *, bias: bool = False, **attrs: Any) -> Case:
    stated = {
        **IMAGE, "in_channels": 4, "out_channels": weight[0], "kernel_size": weight[2:], "stride": (1, 1),
        "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, **attrs,
    }  # fmt: skip
    return Case(f"ttnn.{op}", (FLAT, weight, *(((1, 1, 1, 8),) if bias else ())), stated)


def pool(op: str, **attrs: Any) -> Case:
    stated = {
        **IMAGE, "channels": 4, "kernel_size": (3, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), **attrs,
    }  # fmt: skip
    return Case(f"ttnn.{op}", (FLAT,), stated)


PARAMETERS: dict[str, dict[str, Any]] = {
    "clamp": {"min": -0.5, "max": 0.7}, "threshold": {"threshold": 0.1, "value": 0.5}, "pow_scalar": {"exponent": 3.0},
    "rdiv": {"scalar": 2.0}, "rsub": {"scalar": 2.0}, "prelu_scalar": {"weight": 0.3},
}  # fmt: skip

ELEMENTWISE = (
    *(case(name, X) for name in UNARY if name != "bitwise_not"),
    *(case(name, X, **PARAMETERS.get(name, {})) for name in UNARY_PARAMS),
    *(case(name, X, (3, 1, 6)) for name in BINARY if not name.startswith(("bitwise", "logical_right"))),
    case("add", X, (3, 1, 6), activations=("relu",)),
    case("multiply", X, scalar=0.5),
    case("multiply", X, X, input_tensor_a_activations=("silu",)),
    case("multiply", (1, 4, 6), X, activations=("gelu",)),
    case("where", X, X, (1, 1, 6)),
    case("where", X, X, y=-1e30),
    case("addcmul", X, X, X),
    case("addcdiv", X, X, X),
    case("lerp", X, X, X),
    case("mac", X, X, X),
    case("tril", X),
    case("triu", X, diagonal=1),
    case("typecast", X, dtype="bf16"),
)
CONTRACTIONS = (
    case("matmul", (2, 3, 4, 5), (2, 3, 5, 6)),
    case("matmul", (2, 3, 4, 5), (1, 3, 6, 5), transpose_b=True),
    case("matmul", (3, 5, 4), (5, 6), transpose_a=True, activation="gelu"),
    case("linear", (2, 4, 5), (5, 6), (1, 6), activation="relu"),
    case("linear", (2, 1, 4, 5), (6, 5), (6,), transpose_b=True),
    convolution("conv2d", (8, 4, 3, 3), bias=True, padding=(1, 0, 2, 1), activation="silu"),
    convolution("conv2d", (8, 2, 3, 2), groups=2, stride=(2, 1), dilation=(1, 2), activation="relu"),
    convolution("conv2d", (4, 1, 3, 3), groups=4, stride=(2, 2), padding=(1, 1, 1, 1)),
    convolution("conv2d", (8, 4, 1, 1), stride=(2, 2)),
    convolution("conv_transpose2d", (4, 8, 3, 3), bias=True, stride=(2, 2), padding=(1, 1, 0, 1)),
    convolution("conv_transpose2d", (4, 4, 2, 3), groups=2, stride=(2, 3), dilation=(2, 1), output_padding=(1, 1)),
)
POOLS = (
    pool("max_pool2d"),
    pool("max_pool2d", kernel_size=(3, 3), padding=(1, 1, 1, 1), ceil_mode=True),
    pool("avg_pool2d", kernel_size=(2, 2), padding=(1, 0, 1, 0)),
    pool("avg_pool2d", kernel_size=(3, 3), padding=(1, 1, 1, 1), count_include_pad=False, ceil_mode=True),
    case("global_avg_pool2d", (2, 5, 4, 3)),
    case("upsample", (2, 3, 4, 5), scale_factor=(2, 3)),
    case("upsample", (2, 3, 4, 5), scale_factor=(2, 3), mode="bilinear"),
    case("grid_sample", (2, 5, 6, 3), (2, 4, 3, 2)),
    case("grid_sample", (2, 5, 6, 3), (2, 4, 3, 2), align_corners=True),
)
ROWS = (
    *(case(name, X, dim=(1, -1)) for name in REDUCTIONS),
    *(case(name, X, dim=2, keepdim=False) for name in REDUCTIONS),
    case("sum", X),
    case("argmax", X, dim=-1),
    case("topk", X, k=3),
    case("topk", X, k=2, dim=1, largest=False),
    case("sort", X, descending=True),
    case("cumsum", X, dim=1),
    case("cumsum", X, dim=-1, reverse_order=True),
    case("softmax", X),
    case("softmax", X, dim=1),
    case("layer_norm", X),
    case("layer_norm", X, (1, 6), (6,)),
    case("rms_norm", X, (6,), epsilon=0.5),
    case("group_norm", (2, 1, 5, 8), (1, 1, 1, 8), (8,), num_groups=4),
    case("batch_norm", X, (1, 3, 1, 1), (1, 3, 1, 1), (1, 3, 1, 1), (1, 3, 1, 1)),
)
MOVEMENT = (
    case("reshape", X, shape=(6, 24)),
    case("permute", X, dims=(0, 2, 3, 1)),
    case("transpose", X, dim0=1, dim1=3),
    case("concat", X, (2, 5, 4, 6), X, dim=1),
    case("slice", X, begins=(0, 1, 0, 1), ends=(2, 3, 4, 6), steps=(1, 1, 2, 2)),
    case("split", X, sizes=(1, 2), dim=1),
    case("pad", X, padding=((0, 0), (0, 0), (1, 2), (0, 3)), value=-7.0),
    case("repeat", X, repeats=(1, 2, 1, 3)),
    case("repeat_interleave", X, repeats=3, dim=2),
    case("fill_implicit_tile_padding", X, value=0.0),
    case("gather", X, (2, 3, 4, 4), whole=(1,), dim=-1),
    case("scatter", X, (2, 3, 2, 6), (2, 3, 2, 6), whole=(1,), dim=2),
    case("scatter_add", X, (2, 3, 2, 6), (2, 3, 2, 6), whole=(1,), dim=2),
    case("embedding", (2, 9), (7, 6), whole=(0,)),
    case("split_query_key_value_and_split_heads", (2, 4, 24), num_heads=2, transpose_key=True),
    case("nlp_create_qkv_heads", (2, 1, 4, 24), num_heads=4, num_kv_heads=1),
    case("concatenate_heads", X),
    case("nlp_concat_heads", X),
    case("to_layout", X, layout="tile"),
    *(case(name, X) for name in ("to_memory_config", "to_device", "from_device")),
)
ATTENTION = (
    case("scaled_dot_product_attention", (2, 4, 5, 6), (2, 2, 5, 6), (2, 2, 5, 6), is_causal=True),
    case("scaled_dot_product_attention", (2, 2, 5, 6), (2, 2, 7, 6), (2, 2, 7, 6), (2, 1, 5, 7), scale=0.7),
    case("scaled_dot_product_attention_decode", (1, 2, 4, 6), (2, 2, 5, 6), (2, 2, 5, 6), cur_pos=(3, 1)),
    case("scaled_dot_product_attention_decode", (1, 2, 4, 6), (2, 2, 5, 6), (2, 2, 5, 6), (2, 1, 4, 5),
         cur_pos=(3, 1), is_causal=False),
    case("rotary_embedding", (2, 3, 4, 6), (1, 1, 5, 6), (1, 1, 5, 6)),
)  # fmt: skip
CASES = (*ELEMENTWISE, *CONTRACTIONS, *POOLS, *ROWS, *MOVEMENT, *ATTENTION)
_MADE = ("full", "zeros", "ones", "arange")
_INTEGERS = tuple(name for name in op_names() if "bitwise" in name or name == "ttnn.logical_right_shift")
WITHOUT_FLOATS = frozenset({*(f"ttnn.{name}" for name in _MADE), *_INTEGERS})
"""Ops without operands, or of integers only."""
