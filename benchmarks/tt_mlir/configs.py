"""Op configurations as tt-mlir writes them, in our spelling.

Fields without a counterpart are left out where they state what TTNN does anyway (`out_block_h` of the whole shard).
One that says otherwise is noted: the op is priced without it. UnsupportedOpError is for what changes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.errors import UnsupportedOpError
from optimizer.ir.graph import Attr
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.op_config import (
    Conv2dConfig,
    LayerNormShardedMultiCoreProgramConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    OpConfig,
    SDPAProgramConfig,
)
from optimizer.layouts.tiling import TILE

_FIDELITIES = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
_MATMULS = {
    "matmul_multi_core_reuse_program_config": MatmulMultiCoreReuseProgramConfig,
    "matmul_multi_core_reuse_multi_cast_program_config": MatmulMultiCoreReuseMultiCastProgramConfig,
    "matmul_multi_core_reuse_multi_cast_1d_program_config": MatmulMultiCoreReuseMultiCast1DProgramConfig,
}
_CONV_FLAGS = (
    "deallocate_activation", "reallocate_halo_output", "act_block_h_override", "act_block_w_div",
    "reshard_if_not_optimal", "override_sharding_config", "transpose_shards", "enable_act_double_buffer",
    "enable_weights_double_buffer",
)  # fmt: skip
CONV_EXTRAS = ("config_tensors_in_dram", "enable_kernel_stride_folding")
"""Fields of a convolution's config that our `Conv2dConfig` lacks: attributes of the op, which the backends read."""
_CONV_KNOWN = frozenset(
    (*_CONV_FLAGS, *CONV_EXTRAS, "weights_dtype", "activation", "shard_layout", "output_layout", "_")
)  # fmt: skip
_DTYPES = {"bfp_bf8": "bfp8_b", "bfp_bf4": "bfp4_b"}
_BLOCK_FIELDS = ("out_block_h", "out_block_w")
_MATMUL_NEUTRAL = {"gather_in0": False, "num_global_cb_receivers": 0, "untilize_out": False}
_SWITCHES = frozenset({"gelu", "sigmoid", "exp", "rsqrt", "erf", "erfc"})
"""Activations whose parameters only choose between a fast and an exact form."""


def activation_name(record: Any, place: str) -> str | None:
    """The activation of `{"op_type": "relu"}` or of plain text; UnsupportedOpError for one with parameters."""
    if not record:
        return None
    if isinstance(record, str):
        return record.lower()
    if record.get("params") and str(record["op_type"]).lower() not in _SWITCHES:
        raise UnsupportedOpError(f"fused activation {record['op_type']} with parameters", node=place)
    return str(record["op_type"]).lower()


def activation_names(records: Any, place: str) -> tuple[str, ...]:
    """The names in a list of activations, empty for none."""
    found = (activation_name(record, place) for record in records or ())
    return tuple(name for name in found if name is not None)


def matmul_config(record: Mapping[str, Any] | None, place: str, notes: list[str]) -> OpConfig | None:
    """A matmul program config; tt-mlir states grids as (x, y). None for a kind that we lack: TTNN's own choice."""
    if not record:
        return None
    kind = record.get("_")
    if kind not in _MATMULS:
        notes.append(f"{place}: program config {kind} is priced as TTNN's own choice")
        return None
    differing = [f"{k} = {record[k]}" for k, neutral in _MATMUL_NEUTRAL.items() if record.get(k, neutral) != neutral]
    for name, whole in zip(_BLOCK_FIELDS, ("per_core_m", "per_core_n"), strict=True):
        if record.get(name, record[whole]) != record[whole]:
            differing.append(f"{name} = {record[name]} of {record[whole]} tiles")
    if differing:
        notes.append(f"{place}: priced without {', '.join(differing)}")
    x, y = record["compute_with_storage_grid_size"]
    fields: dict[str, Any] = {
        "compute_with_storage_grid_yx": (y, x),
        "in0_block_w": record["in0_block_w"],
        "out_subblock_h": record["out_subblock_h"],
        "out_subblock_w": record["out_subblock_w"],
        "per_core_M": record["per_core_m"],
        "per_core_N": record["per_core_n"],
    }
    made: type[OpConfig] = _MATMULS[kind]
    if made is not MatmulMultiCoreReuseProgramConfig:
        fields["fused_activation"] = activation_name(record.get("fused_activation"), place)
        fields["fuse_batch"] = bool(record.get("fuse_batch", True))
    if made is MatmulMultiCoreReuseMultiCastProgramConfig:
        fields["transpose_mcast"] = bool(record.get("transpose_mcast", False))
    if made is MatmulMultiCoreReuseMultiCast1DProgramConfig:
        fields["mcast_in0"] = bool(record.get("mcast_in0", True))
    return made(**fields)


def conv_config(
    record: Mapping[str, Any] | None, slices: Mapping[str, Any] | None, place: str, notes: list[str]
) -> Conv2dConfig:
    """A convolution's config and slicing."""
    record = record or {}
    differing = [f"{name} = {record[name]}" for name in record if name not in _CONV_KNOWN and record[name]]
    if differing:
        notes.append(f"{place}: priced without {', '.join(differing)}")
    weights = record.get("weights_dtype")
    flags = {name: record[name] for name in _CONV_FLAGS if record.get(name) is not None}
    layout = record.get("shard_layout")
    return Conv2dConfig(
        weights_dtype=None if weights is None else _DTYPES.get(weights, weights),
        activation=activation_name(record.get("activation"), place),
        shard_layout=None if layout is None else TensorMemoryLayout(layout).value,
        output_layout=record.get("output_layout") or "tile",
        slice=_slicing(slices, place),
        **flags,
    )


def _slicing(record: Mapping[str, Any] | None, place: str) -> str:
    if not record:
        return "auto"
    kind, count = record.get("slice_type"), int(record.get("num_slices") or 0)
    if kind == "l1_full":
        return "l1"
    if kind not in ("dram_height", "dram_width"):
        raise UnsupportedOpError(f"slicing {kind}", node=place, alternatives=("l1_full", "dram_height", "dram_width"))
    return f"{kind}:{count}" if count else "auto"


def compute_attrs(record: Mapping[str, Any] | None) -> dict[str, Attr]:
    """A device compute kernel config as the attribute that the OpModels read; none where none is stated."""
    if not record:
        return {}
    given: list[tuple[str, Attr]] = []
    if record.get("math_fidelity"):
        given.append(("fid", _FIDELITIES[str(record["math_fidelity"]).lower()]))
    given.append(("fp32", bool(record.get("fp32_dest_acc_en", False))))
    given.append(("l1acc", bool(record.get("packer_l1_acc", False))))
    return {"compute": tuple(given)}


def norm_config(record: Mapping[str, Any] | None) -> OpConfig | None:
    """A sharded norm's program config; without one tt-metal makes it from the shards. None of an interleaved norm."""
    if not record:
        return None
    if "compute_with_storage_grid_size" not in record:
        return None
    x, y = record["compute_with_storage_grid_size"]
    sizes = (record["subblock_w"], record["block_h"], record["block_w"])
    return LayerNormShardedMultiCoreProgramConfig((y, x), *sizes, inplace=bool(record.get("inplace", False)))


def sdpa_config(record: Mapping[str, Any] | None) -> OpConfig | None:
    """Chunk sizes of attention, in elements."""
    if not record:
        return None
    x, y = record["compute_with_storage_grid_size"]
    return SDPAProgramConfig((y, x), record.get("q_chunk_size") or TILE, record.get("k_chunk_size") or TILE)
