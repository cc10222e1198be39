"""Device operations by name: what tt-metal's profiler calls the programs that an op runs.

Names are those of captures of ttnn 0.81.1 on mock devices. A program is known by the op that runs it and by its family
in the cost model (`CostPart.name`).
"""

from __future__ import annotations

from optimizer.families.elementwise.rows import BINARY, UNARY, UNARY_PARAMS
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.ir.graph import Op
from optimizer.ir.opdef import CostClass, short_name
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import padded_shape
from optimizer.opmodel.base import TensorSpec

_BY_OP = {
    **dict.fromkeys((*UNARY, *UNARY_PARAMS), "Unary"),
    **dict.fromkeys(BINARY, "BinaryNg"),
    **dict.fromkeys(REDUCTIONS, "Reduce"),
    **dict.fromkeys(("where", "addcmul", "addcdiv", "lerp", "mac"), "Ternary"),
    **dict.fromkeys(("layer_norm", "rms_norm"), "LayerNorm"),
    "argmax": "ArgMax",
    "concatenate_heads": "NLPConcatHeads",
    "cumsum": "Accumulation",
    "embedding": "Embeddings",
    "fill_implicit_tile_padding": "FillPad",
    "grid_sample": "GridSample",
    "nlp_concat_heads": "NLPConcatHeads",
    "nlp_create_qkv_heads": "NlpCreateHeads",
    "permute": "Permute",
    "repeat_interleave": "Repeat",
    "reshape": "ReshapeView",
    "split_query_key_value_and_split_heads": "NlpCreateHeads",
    "transpose": "Transpose",
}
"""Op without `ttnn.` -> device operation, where that is not the op's own name in capitals."""
_WITHOUT_SUFFIX = {
    **dict.fromkeys(("max_pool2d", "avg_pool2d", "global_avg_pool2d"), "Pool2D"),
    "scaled_dot_product_attention": "SDPAOperation",
    "scaled_dot_product_attention_decode": "SdpaDecodeDeviceOperation",
    "upsample": "UpsampleOperation",
}
_BY_FAMILY = {
    "conv": "Conv2dDeviceOperation",
    "eltwise": "UnaryDeviceOperation",
    "halo": "HaloDeviceOperation",
    "matmul": "MatmulDeviceOperation",
}
"""Programs that an op of another kind runs besides its own."""


def op_code(op: Op, family: str, source: TensorSpec | None, target: TensorSpec | None) -> str:
    """The profiler's OP CODE of a program of an op between operand 0 and the first result, None where it has none."""
    name = short_name(op.op)
    if family == "reshard":
        return _move(source, target)
    if family == "tilize":
        return _retiling(source, target)
    if opdef(op.op).cost_class in (CostClass.CONV, CostClass.MATMUL) or family in ("halo", "matmul"):
        return _BY_FAMILY.get(family, f"{_capitals(family)}DeviceOperation")
    if name == "where" and len(op.inputs) == 1:
        return "UnaryDeviceOperation"
    if name in _WITHOUT_SUFFIX:
        return _WITHOUT_SUFFIX[name]
    return f"{_BY_OP.get(name, _capitals(name))}DeviceOperation"


def _retiling(source: TensorSpec | None, target: TensorSpec | None) -> str:
    """To tiles, or from them to rows; with padding where the shape is not one of whole tiles."""
    shape = () if source is None else source.shape
    padded = padded_shape(shape, PageLayout.TILE) != shape
    if target is None or target.layout.is_tile:
        return "TilizeWithValPaddingDeviceOperation" if padded else "TilizeDeviceOperation"
    return "UntilizeWithUnpaddingDeviceOperation" if padded else "UntilizeDeviceOperation"


def _move(source: TensorSpec | None, target: TensorSpec | None) -> str:
    from_shards = source is not None and source.layout.is_sharded
    to_shards = target is not None and target.layout.is_sharded
    if from_shards and to_shards:
        return "ReshardDeviceOperation"
    if from_shards:
        return "ShardedToInterleavedDeviceOperation"
    return "InterleavedToShardedDeviceOperation" if to_shards else "CopyDeviceOperation"


def _capitals(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
