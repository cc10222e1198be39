"""Types of tt-mlir's TTNN dialect: tensors with a `#ttnn.ttnn_layout` encoding, as of August 2026.

    #ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <8x1>, memref<1x2x!ttcore.tile<32x32, bf16>, #l1>, <height_sharded>,
                      core_ranges = <[#ttnn.core_range<(0, 0), (7, 0)>]>>

The map collapses all dims but the last into rows; the memref is one core's part in tiles or elements, of a tensor in
DRAM or on the host the whole. Source: tt-mlir's `TTNNLayoutAttr` and its builder.
"""

from __future__ import annotations

from math import prod

from optimizer.device import DeviceSpec
from optimizer.errors import OptionError
from optimizer.export.overrides import dtype_text, grid_of
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, ShardOrientation
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, physical_shape, tile_grid
from optimizer.opmodel.base import TensorSpec

BUFFERS = {BufferType.DRAM: "dram", BufferType.L1: "l1", BufferType.HOST: "system_memory"}
"""Names of memory spaces, and of the aliases that stand for them."""


def element_text(dtype: DType) -> str:
    """A tensor's element type: block formats exist as tiles only."""
    name = dtype_text(dtype)
    return tile_text(dtype) if dtype.is_block_float else f"ui{name[1:]}" if name.startswith("u") else name


def tile_text(dtype: DType) -> str:
    return f"!ttcore.tile<{TILE}x{TILE}, {dtype_text(dtype)}>"


class Types:
    """Writes types, each layout once as an alias of the module."""

    def __init__(self, device: DeviceSpec) -> None:
        self._device = device
        self._aliases: dict[str, str] = {}

    def tensor(self, spec: TensorSpec) -> str:
        """`tensor<1x1x32x64xbf16, #ttnn_layout3>`."""
        sizes = "".join(f"{size}x" for size in spec.shape)
        return f"tensor<{sizes}{element_text(spec.dtype)}, {self.layout(spec)}>"

    def layout(self, spec: TensorSpec) -> str:
        """The alias of a tensor's layout."""
        text = layout_text(spec, self._device)
        number = len(self._aliases)
        return self._aliases.setdefault(text, f"#ttnn_layout{number or ''}")

    def definitions(self) -> list[str]:
        """The lines that define every alias."""
        spaces = [f"#{name} = #ttnn.buffer_type<{name}>" for name in BUFFERS.values()]
        used = [line for line in spaces if any(f"{line.partition(' ')[0]}>" in text for text in self._aliases)]
        return [*used, *(f"{alias} = {text}" for text, alias in self._aliases.items())]


def layout_text(spec: TensorSpec, device: DeviceSpec) -> str:
    """A tensor's layout, complete. OptionError for shards in an order that the dialect has no words for."""
    layout = spec.layout
    memory = layout.memory
    parts = [_map(spec), f"<{'x'.join(map(str, grid_of(layout, device)))}>", _memref(spec, device)]
    if not layout.is_host:
        parts.append(f"<{memory.memory_layout.value}>")
    if memory.shard_spec is not None:
        if memory.shard_spec.orientation is not ShardOrientation.ROW_MAJOR:
            raise OptionError("tt-mlir's layouts have no shards in column-major order", node="mlir")
        parts.append(f"core_ranges = {core_ranges_text(memory)}")
    return f"#ttnn.ttnn_layout<{', '.join(parts)}>"


def core_ranges_text(memory: MemoryConfig) -> str:
    ranges = () if memory.shard_spec is None else memory.shard_spec.core_ranges
    shown = ", ".join(f"#ttnn.core_range<({x0}, {y0}), ({x1}, {y1})>" for x0, y0, x1, y1 in ranges)
    return f"<[{shown}]>"


def _map(spec: TensorSpec) -> str:
    """`(d0, d1, d2) -> (d0 * 64 + d1, d2)`: rows of the padded tensor."""
    rank = len(spec.shape)
    dims = [f"d{i}" for i in range(rank)]
    if rank < 2:
        return f"({', '.join(dims)}) -> ({', '.join(['0'] * (2 - rank) + dims)})"
    padded = padded_shape(spec.shape, spec.layout.page_layout)
    terms = []
    for i in range(rank - 1):
        below = prod(padded[i + 1 : rank - 1])
        terms.append(dims[i] if below == 1 else f"{dims[i]} * {below}")
    return f"({', '.join(dims)}) -> ({' + '.join(terms)}, {dims[-1]})"


def _memref(spec: TensorSpec, device: DeviceSpec) -> str:
    layout = spec.layout
    rows, columns = _held(spec, device)
    element = tile_text(spec.dtype) if layout.is_tile else element_text(spec.dtype)
    return f"memref<{rows}x{columns}x{element}, #{BUFFERS[layout.memory.buffer_type]}>"


def _held(spec: TensorSpec, device: DeviceSpec) -> tuple[int, int]:
    """What the memref describes, in tiles or elements."""
    layout, shards = spec.layout, spec.layout.shard_spec
    if shards is not None:
        height, width = shards.shape
        return (ceil_div(height, TILE), ceil_div(width, TILE)) if layout.is_tile else (height, width)
    whole = tile_grid(spec.shape) if layout.is_tile else physical_shape(spec.shape, layout.page_layout)
    return (1, ceil_div(prod(whole), device.num_cores)) if layout.is_l1 else whole
