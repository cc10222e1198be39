"""Op-specific configurations, spelled and defaulted as in TTNN 0.81.

Field names are the keyword arguments of the TTNN classes of the same name; `to_json` gives the `config`
object of `graph.json`, tagged by `kind`.
"""

from __future__ import annotations

import re
import types
import typing
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from typing import Any, ClassVar

from optimizer.errors import FormatError, UnknownNameError
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ConfigFamily
from optimizer.layouts.memory_config import PageLayout, TensorMemoryLayout


@dataclass(frozen=True)
class OpConfig:
    """Base of all op configurations."""

    kind: ClassVar[str] = "none"
    family: ClassVar[ConfigFamily | None] = None
    """Family of ops that take it; None where a row's other traits decide."""

    def to_json(self) -> dict[str, Any]:
        record = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **record}


@dataclass(frozen=True)
class Conv2dConfig(OpConfig):
    """`ttnn.Conv2dConfig`, and which `slice_config` goes with it."""

    kind: ClassVar[str] = "conv2d"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.CONV2D

    weights_dtype: str | None = None
    activation: str | None = None
    deallocate_activation: bool = False
    reallocate_halo_output: bool = True
    act_block_h_override: int = 0
    """Rows of one activation block, a multiple of 32; 0 lets TTNN take the whole shard."""
    act_block_w_div: int = 1
    reshard_if_not_optimal: bool = False
    override_sharding_config: bool = False
    shard_layout: str | None = None
    """A `TensorMemoryLayout` value; None lets TTNN choose."""
    transpose_shards: bool = False
    output_layout: str = "tile"
    enable_act_double_buffer: bool = False
    enable_weights_double_buffer: bool = False
    slice: str = "auto"
    """`auto`: DRAM input is sliced by TTNN and the result is DRAM interleaved; `l1`: `Conv2dL1FullSliceConfig`;
    `dram_height:N` and `dram_width:N`: `Conv2dSliceConfig` of N slices, which rows name."""


CONV2D_SWITCHES = tuple(f.name for f in fields(Conv2dConfig) if f.type in ("bool", "int"))
"""Fields of `Conv2dConfig` that TTNN's class takes as they are: flags and numbers."""


@dataclass(frozen=True)
class MatmulMultiCoreReuseProgramConfig(OpConfig):
    """`ttnn.MatmulMultiCoreReuseProgramConfig`: every core its own output block, no multicast."""

    kind: ClassVar[str] = "matmul_reuse"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.MATMUL

    compute_with_storage_grid_yx: tuple[int, int]
    in0_block_w: int
    out_subblock_h: int
    out_subblock_w: int
    per_core_M: int
    per_core_N: int


@dataclass(frozen=True)
class MatmulMultiCoreReuseMultiCastProgramConfig(OpConfig):
    """`ttnn.MatmulMultiCoreReuseMultiCastProgramConfig`: 2D, rows of cores share in0, columns share in1."""

    kind: ClassVar[str] = "matmul_2d"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.MATMUL

    compute_with_storage_grid_yx: tuple[int, int]
    in0_block_w: int
    out_subblock_h: int
    out_subblock_w: int
    per_core_M: int
    per_core_N: int
    transpose_mcast: bool = False
    fused_activation: str | None = None
    fuse_batch: bool = True
    out_block_h: int | None = None
    out_block_w: int | None = None
    """Output tiles computed at a time; None: all of a core's."""


@dataclass(frozen=True)
class MatmulMultiCoreReuseMultiCast1DProgramConfig(OpConfig):
    """`ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig`: in0 (`mcast_in0`) or in1 goes to every core."""

    kind: ClassVar[str] = "matmul_1d"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.MATMUL

    compute_with_storage_grid_yx: tuple[int, int]
    in0_block_w: int
    out_subblock_h: int
    out_subblock_w: int
    per_core_M: int
    per_core_N: int
    mcast_in0: bool
    fused_activation: str | None = None
    fuse_batch: bool = True
    out_block_h: int | None = None
    out_block_w: int | None = None
    """Output tiles computed at a time; None: all of a core's."""


@dataclass(frozen=True)
class MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(OpConfig):
    """`ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig`: operand B sharded over the DRAM banks, one row of
    output tiles; a core beside each bank reads its columns and multiplies them."""

    kind: ClassVar[str] = "matmul_dram_sharded"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.MATMUL

    in0_block_w: int
    per_core_M: int
    per_core_N: int
    """Columns of one shard of the result, in tiles."""
    fused_activation: str | None = None
    num_workers_per_dram_bank: int = 1
    """Cores that read one bank, 1 to 3; more than one on Blackhole only."""


@dataclass(frozen=True)
class LayerNormShardedMultiCoreProgramConfig(OpConfig):
    """`ttnn.LayerNormShardedMultiCoreProgramConfig`, used by layer_norm and rms_norm on sharded input."""

    kind: ClassVar[str] = "layer_norm_sharded"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.NORM

    compute_with_storage_grid_yx: tuple[int, int]
    subblock_w: int
    block_h: int
    block_w: int
    inplace: bool = False


@dataclass(frozen=True)
class SDPAProgramConfig(OpConfig):
    """`ttnn.SDPAProgramConfig`: chunk sizes in elements."""

    kind: ClassVar[str] = "sdpa"
    family: ClassVar[ConfigFamily | None] = ConfigFamily.SDPA

    compute_with_storage_grid_yx: tuple[int, int]
    q_chunk_size: int
    k_chunk_size: int
    exp_approx_mode: bool | None = None
    """None is TTNN's own choice: the approximate exponential."""


@dataclass(frozen=True)
class InPlaceConfig(OpConfig):
    """An elementwise op that writes its result into an operand (`output_tensor=`), which is lost."""

    kind: ClassVar[str] = "in_place"

    operand: int
    """Position of the operand, of the result's shape, type and layout."""


_KINDS: dict[str, type[OpConfig]] = {
    cls.kind: cls
    for cls in (
        Conv2dConfig,
        MatmulMultiCoreReuseProgramConfig,
        MatmulMultiCoreReuseMultiCastProgramConfig,
        MatmulMultiCoreReuseMultiCast1DProgramConfig,
        MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
        LayerNormShardedMultiCoreProgramConfig,
        SDPAProgramConfig,
        InPlaceConfig,
    )
}


def overwritten_operand(config: OpConfig | None) -> int | None:
    """Position of the operand whose buffer the op's result takes; None if it has a buffer of its own."""
    if isinstance(config, InPlaceConfig):
        return config.operand
    return 0 if isinstance(config, LayerNormShardedMultiCoreProgramConfig) and config.inplace else None


def op_config_from_json(record: Any, place: str = "config") -> OpConfig | None:
    """Read a `config` object of `graph.json`; null gives None."""
    if record is None:
        return None
    if not isinstance(record, dict) or "kind" not in record:
        raise FormatError("not an op config: an object with 'kind' is expected", node=place)
    kind = record["kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnknownNameError("op config kind", str(kind), _KINDS, node=place)
    hints = _field_types(kind)
    data = {k: v for k, v in record.items() if k != "kind"}
    for key in data:
        if key not in hints:
            raise UnknownNameError(f"{kind} config field", key, hints, node=place)
    required = [f.name for f in fields(_KINDS[kind]) if f.default is MISSING]
    missing = [name for name in required if name not in data]
    if missing:
        raise FormatError(f"incomplete {kind} config: {', '.join(missing)} missing", node=place)
    return _KINDS[kind](**{key: _checked(key, hints[key], value, place) for key, value in data.items()})


_LARGEST = 2**31 - 1
"""Of any number in a config; TTNN keeps them in 32 bits."""
_LARGEST_GRID = 64
"""Rows or columns of cores, as for a board."""
_ZERO_ALLOWED = frozenset({"act_block_h_override", "operand"})
_WORDS: dict[str, tuple[str, ...]] = {
    "weights_dtype": tuple(dtype.value for dtype in DType),
    "shard_layout": tuple(m.value for m in TensorMemoryLayout if m.is_sharded),
    "output_layout": tuple(PageLayout),
    "slice": ("auto", "l1"),
    "activation": FUSED_ACTIVATIONS,
    "fused_activation": FUSED_ACTIVATIONS,
}
"""Words that a field of text may be."""


_SLICES = re.compile(r"dram_(?:height|width):[1-9][0-9]{0,8}")


@cache
def _field_types(kind: str) -> dict[str, Any]:
    hints = typing.get_type_hints(_KINDS[kind])
    return {f.name: hints[f.name] for f in fields(_KINDS[kind])}


def _checked(key: str, hint: Any, value: Any, place: str) -> Any:
    """A decoded JSON value as the field's type; FormatError names the field."""
    least = 0 if key in _ZERO_ALLOWED else 1
    members = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if typing.get_origin(hint) is tuple:
        if isinstance(value, list | tuple) and len(value) == 2 and all(_is_size(v, 1, _LARGEST_GRID) for v in value):
            return tuple(value)
        wanted = f"two whole numbers from 1 to {_LARGEST_GRID}"
    elif hint is int:
        if _is_size(value, least):
            return value
        wanted = f"a whole number from {least} to {_LARGEST}"
    elif int in members and value is not None:
        if _is_size(value, least):
            return value
        wanted = f"null or a whole number from {least} to {_LARGEST}"
    else:
        words = _WORDS.get(key)
        if type(value) in members and (not isinstance(value, str) or words is None or value in words):
            return value
        if key == "slice" and isinstance(value, str) and _SLICES.fullmatch(value):
            return value
        if isinstance(value, str) and words is not None:
            raise UnknownNameError(f"{key} of a config", value, words, node=place)
        wanted = " or ".join("null" if m is type(None) else m.__name__ for m in members)
    raise FormatError(f"config field '{key}' must be {wanted}", node=place)


def _is_size(value: Any, least: int, most: int = _LARGEST) -> bool:
    return type(value) is int and least <= value <= most
