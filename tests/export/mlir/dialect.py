"""Attributes of tt-mlir's dialects as its definitions of August 2026 have them, for `syntax.Reader`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tests.export.mlir.syntax import DATA_TYPES, MEMORIES, SPACES, Custom, Layout, Reader

Body = Callable[[Reader, str], Any]


# -- layouts -----------------------------------------------------------------------------------------------
def layout(reader: Reader, name: str) -> Layout:
    """`<MAP, <GRID>, memref<...>[, <memory>][, core_ranges = <[...]>]>` without its outer brackets."""
    dims = reader.listed(lambda: reader.of("word"), "(", ")")
    if dims != [f"d{k}" for k in range(len(dims))]:
        raise reader.fail("dims are d0, d1, ...")
    reader.take("->")
    expressions = reader.listed(lambda: _factors(reader, len(dims)), "(", ")")
    if len(expressions) != 2:
        raise reader.fail("a map gives rows and columns")
    reader.take(",", "<")
    grid = reader.dimensions()
    reader.take(">", ",", "memref", "<")
    held, element = reader.sized()
    reader.take(",")
    space = _space(reader)
    reader.take(">")
    memory, cores = None, None
    while reader.given(","):
        if reader.given("core_ranges"):
            reader.take("=")
            reader.take("<")
            cores = _ranges(reader)
            reader.take(">")
        elif memory is None and cores is None:
            reader.take("<")
            memory = reader.one_of(MEMORIES)
            reader.take(">")
        else:
            raise reader.fail("the memory layout stands before the cores")
    tiled = element.startswith("tile ")
    rows, columns = expressions
    kind = element.removeprefix("tile ")
    found = Layout(len(dims), rows, columns, grid, held, kind, tiled, space, memory, cores)
    problem = unsound(found)
    if problem is not None:
        raise reader.fail(problem)
    return found


def unsound(found: Layout) -> str | None:
    """What tt-mlir's verifier of layouts refuses, and what its builder never makes."""
    if len(found.grid) != 2 or len(found.held) != 2:
        return "grid and memref have two dims"
    if (found.memory is None) != (found.space == "system_memory"):
        return "tensors have a memory layout on the device, and none on the host"
    sharded = found.memory not in (None, "interleaved")
    if sharded != (found.core_ranges is not None):
        return "core ranges are for shards, and shards need them"
    if not sharded and found.space != "l1" and found.grid != (1, 1):
        return "outside of L1 the grid is 1x1"
    if found.core_ranges is None:
        return None
    cores = [(x, y) for x0, y0, x1, y1 in found.core_ranges for x in range(x0, x1 + 1) for y in range(y0, y1 + 1)]
    if any(x0 > x1 or y0 > y1 for x0, y0, x1, y1 in found.core_ranges) or len(set(cores)) != len(cores):
        return "core ranges begin before they end, and do not overlap"
    if len(cores) != prod(found.grid):
        return f"{len(cores)} cores for a grid of {found.grid}"
    rows, columns = found.grid
    if (found.memory == "height_sharded" and columns != 1) or (found.memory == "width_sharded" and rows != 1):
        return f"{found.memory} over {found.grid}"
    if found.memory == "block_sharded" and found.core_ranges != ((0, 0, columns - 1, rows - 1),):
        return "blocks lie on one rectangle of cores"
    return None


def _factors(reader: Reader, count: int) -> tuple[int, ...]:
    """`d0 * 64 + d1`: the factor of each dim."""
    factors = [0] * count
    if reader.given("0"):
        return tuple(factors)
    while True:
        dim = int(reader.of("word").removeprefix("d"))
        if dim >= count or factors[dim]:
            raise reader.fail("a dim that is not there, or twice")
        factors[dim] = reader.integer() if reader.given("*") else 1
        if not reader.given("+"):
            return tuple(factors)


def _space(reader: Reader) -> str:
    found = reader.attribute()
    if not isinstance(found, Custom) or found.name != "ttnn.buffer_type":
        raise reader.fail("a memref lies in a buffer")
    return str(found.parts[0])


def _ranges(reader: Reader) -> tuple[tuple[int, int, int, int], ...]:
    """`[#ttnn.core_range<(0, 0), (7, 7)>, ...]`."""

    def one() -> tuple[int, int, int, int]:
        if reader.of("hash") != "#ttnn.core_range":
            raise reader.fail("a core range expected")
        reader.take("<")
        start = reader.listed(reader.integer, "(", ")")
        reader.take(",")
        end = reader.listed(reader.integer, "(", ")")
        reader.take(">")
        return (start[0], start[1], end[0], end[1])

    return tuple(reader.listed(one, "[", "]"))


# -- fields ------------------------------------------------------------------------------------------------
def number(reader: Reader) -> int:
    found = reader.integer()
    if found < 0:
        raise reader.fail("a count is not negative")
    return found


def flag(reader: Reader) -> bool:
    return reader.one_of(("true", "false")) == "true"


def word(*words: str) -> Callable[[Reader], str]:
    return lambda reader: reader.one_of(words)


def coordinates(reader: Reader) -> Any:
    """Spelled out, or in brackets alone."""
    if reader.peek() == "#ttnn.core_coord":
        reader.take("#ttnn.core_coord")
    reader.take("<")
    x = number(reader)
    reader.take(",")
    y = number(reader)
    reader.take(">")
    return x, y


def activation(reader: Reader) -> str:
    if reader.peek() == "#ttnn.unary_with_param":
        reader.take("#ttnn.unary_with_param")
    reader.take("<", "op_type", "=")
    found = reader.one_of(ACTIVATIONS)
    reader.take(">")
    return found


def no_cores(reader: Reader) -> None:
    reader.take("#ttnn.core_range_set", "<", ">")


ACTIVATIONS = (
    "relu", "gelu", "silu", "sigmoid", "tanh", "relu6", "mish", "hardsigmoid", "sqrt", "exp", "log", "abs", "neg",
    "sin", "cos", "erf", "erfc", "recip", "sign", "square", "leaky_relu", "rsqrt", "expm1", "identity",
)  # fmt: skip
_GEOMETRY = {"compute_with_storage_grid_size": coordinates, "in0_block_w": number, "out_subblock_h": number}
_BLOCKS = {"out_block_h": number, "out_block_w": number}
_PER_CORE = {"per_core_m": number, "per_core_n": number}
STRUCTS: dict[str, tuple[dict[str, Callable[[Reader], Any]], frozenset[str]]] = {
    "ttnn.device_compute_kernel_config": (
        {
            "math_fidelity": word("lofi", "hifi2", "hifi3", "hifi4"), "math_approx_mode": flag,
            "fp32_dest_acc_en": flag, "packer_l1_acc": flag, "dst_full_sync_en": flag,
        },
        frozenset(),
    ),
    "ttnn.conv2d_config": (
        {
            "weights_dtype": word(*sorted(DATA_TYPES)), "activation": activation, "deallocate_activation": flag,
            "reallocate_halo_output": flag, "act_block_h_override": number, "act_block_w_div": number,
            "reshard_if_not_optimal": flag, "override_sharding_config": flag, "shard_layout": word(*MEMORIES),
            "transpose_shards": flag, "output_layout": word("tile", "row_major"), "enable_act_double_buffer": flag,
            "enable_weights_double_buffer": flag, "enable_kernel_stride_folding": flag, "config_tensors_in_dram": flag,
        },
        frozenset(),
    ),
    "ttnn.matmul_multi_core_reuse_program_config": (
        {**_GEOMETRY, "out_subblock_w": number, **_PER_CORE},
        frozenset({*_GEOMETRY, "out_subblock_w", *_PER_CORE}),
    ),
    "ttnn.matmul_multi_core_reuse_multi_cast_program_config": (
        {
            **_GEOMETRY, "out_subblock_w": number, **_BLOCKS, **_PER_CORE, "transpose_mcast": flag,
            "fused_activation": activation, "fuse_batch": flag,
        },
        frozenset({*_GEOMETRY, "out_subblock_w", *_BLOCKS, *_PER_CORE, "transpose_mcast", "fuse_batch"}),
    ),
    "ttnn.matmul_multi_core_reuse_multi_cast_1d_program_config": (
        {
            **_GEOMETRY, "out_subblock_w": number, **_BLOCKS, **_PER_CORE, "fuse_batch": flag,
            "fused_activation": activation, "mcast_in0": flag, "gather_in0": flag, "hop_cores": no_cores,
            "num_global_cb_receivers": number, "untilize_out": flag,
        },
        frozenset({
            *_GEOMETRY, "out_subblock_w", *_BLOCKS, *_PER_CORE, "fuse_batch", "mcast_in0", "gather_in0", "hop_cores",
            "num_global_cb_receivers", "untilize_out",
        }),
    ),
    "ttnn.layernorm_sharded_multicore_program_config": (
        {
            "compute_with_storage_grid_size": coordinates, "subblock_w": number, "block_h": number, "block_w": number,
            "inplace": flag,
        },
        frozenset({"compute_with_storage_grid_size", "subblock_w", "block_h", "block_w", "inplace"}),
    ),
    "ttnn.sdpa_program_config": (
        {
            "compute_with_storage_grid_size": coordinates, "q_chunk_size": number, "k_chunk_size": number,
            "exp_approx_mode": flag,
        },
        frozenset({"compute_with_storage_grid_size", "q_chunk_size", "k_chunk_size"}),
    ),
    "ttnn.unary_with_param": ({"op_type": word(*ACTIVATIONS)}, frozenset({"op_type"})),
}  # fmt: skip
"""Attribute -> its fields, and those that it may not lack."""


def struct(reader: Reader, name: str) -> Custom:
    """`name = value, ...`: known fields, each once."""
    fields, needed = STRUCTS[name]
    found: dict[str, Any] = {}
    while reader.peek() != ">":
        if found:
            reader.take(",")
        key = reader.one_of(tuple(fields))
        if key in found:
            raise reader.fail(f"a second {key}")
        reader.take("=")
        found[key] = fields[key](reader)
    if needed - found.keys():
        raise reader.fail(f"{name} lacks {sorted(needed - found.keys())}")
    return Custom(name, found)


def enumeration(*words: str) -> Body:
    return lambda reader, name: Custom(name, parts=(reader.one_of(words),))


def shape(reader: Reader, name: str) -> Custom:
    return Custom(name, parts=(() if reader.peek() == ">" else reader.dimensions(),))


def slices(reader: Reader, name: str) -> Custom:
    kind = reader.one_of(("dram_height", "dram_width", "l1_full"))
    reader.take(",")
    return Custom(name, parts=(kind, number(reader)))


def memory(reader: Reader, name: str) -> Custom:
    """`#dram, <interleaved>[, #ttnn.shard_spec<...>]`."""
    space = _space(reader)
    reader.take(",", "<")
    kind = reader.one_of(MEMORIES)
    reader.take(">")
    shards = reader.attribute() if reader.given(",") else None
    if (kind == "interleaved") != (shards is None):
        raise reader.fail("shards are told of sharded memory, and of it alone")
    return Custom(name, parts=(space, kind, shards))


def shard_spec(reader: Reader, name: str) -> Custom:
    reader.take("<")
    cores = _ranges(reader)
    reader.take(">", ",", "<")
    sizes = reader.dimensions()
    reader.take(">", ",", "<")
    order = reader.one_of(("row_major", "col_major"))
    reader.take(">")
    return Custom(name, parts=(cores, sizes, order))


BODIES: dict[str, Body] = {
    "ttnn.ttnn_layout": layout,
    "ttnn.buffer_type": enumeration(*SPACES),
    "ttnn.layout": enumeration("tile", "row_major"),
    "ttcore.argument_type": enumeration("input", "parameter", "constant"),
    "ttcore.supportedDataTypes": enumeration(*sorted(DATA_TYPES)),
    "ttcore.reduce_type": enumeration("sum", "mean", "max", "min", "std", "var", "prod", "invalid"),
    "ttnn.shape": shape,
    "ttnn.conv2d_slice_config": slices,
    "ttnn.memory_config": memory,
    "ttnn.shard_spec": shard_spec,
    **dict.fromkeys(STRUCTS, struct),
}
"""Attribute -> what reads it."""
