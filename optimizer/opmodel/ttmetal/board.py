"""The open device: its tensors as records and back, its L1, graph captures of what runs on it.

Standard library and ttnn only: the child process loads this file by its path, after `traces`.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.opmodel.ttmetal import traces
else:
    traces = sys.modules["ttopt_traces"]

Message = dict[str, Any]


class Board:
    """One open device and what is needed to talk about its tensors."""

    def __init__(self, ttnn: Any, device: Any, l1_small: int, source: str) -> None:
        self.ttnn = ttnn
        self.device = device
        self.l1_small = l1_small
        self.source = source
        names = {"bf16": "bfloat16", "f32": "float32", "bfp8_b": "bfloat8_b", "bfp4_b": "bfloat4_b"}
        names.update(u32="uint32", i32="int32", u16="uint16", u8="uint8")
        self.dtypes = {short: getattr(ttnn, name) for short, name in names.items() if hasattr(ttnn, name)}
        self.dtype_names = {str(value): name for name, value in self.dtypes.items()}
        self.layouts = {"tile": ttnn.TILE_LAYOUT, "rm": ttnn.ROW_MAJOR_LAYOUT}
        memory = ttnn.TensorMemoryLayout
        self.memory_layouts = {
            "interleaved": memory.INTERLEAVED,
            "height": memory.HEIGHT_SHARDED,
            "width": memory.WIDTH_SHARDED,
            "block": memory.BLOCK_SHARDED,
        }
        self.memory_names = {str(value): name for name, value in self.memory_layouts.items()}
        self.buffers = {"dram": ttnn.BufferType.DRAM, "l1": ttnn.BufferType.L1}
        orientation = ttnn.ShardOrientation
        self.orientations = {"row": orientation.ROW_MAJOR, "col": orientation.COL_MAJOR}
        self.normal = ttnn.graph.RunMode.NORMAL
        self.no_dispatch = ttnn.graph.RunMode.NO_DISPATCH

    def hello(self) -> Message:
        ttnn, info = self.ttnn, self.ttnn._ttnn.reports.get_device_info(self.device)
        dram = ttnn.get_memory_view(self.device, ttnn.BufferType.DRAM)
        grid = self.device.compute_with_storage_grid_size()
        return {
            "ttnn": importlib.metadata.version("ttnn"),
            "source": self.source,
            "arch": str(self.device.arch()).rpartition(".")[2].lower(),
            "grid_yx": [grid.y, grid.x],
            "l1_small_bytes": self.l1_small,
            "l1_bank_bytes": self.ttnn.get_memory_view(self.device, ttnn.BufferType.L1).total_bytes_per_bank,
            "cb_base_bytes": info.address_at_first_l1_cb_buffer,
            "worker_l1_bytes": info.worker_l1_size,
            "dram_banks": dram.num_banks,
            "dram_bank_bytes": dram.total_bytes_per_bank,
            "pid": os.getpid(),
        }

    # -- tensors ---------------------------------------------------------------------------------------------
    def memory_config(self, record: Message) -> Any:
        ttnn = self.ttnn
        layout, buffer = self.memory_layouts[record["memory_layout"]], self.buffers[record["buffer"]]
        if not record.get("shard_shape"):
            return ttnn.MemoryConfig(layout, buffer)
        ranges = {ttnn.CoreRange(ttnn.CoreCoord(a, b), ttnn.CoreCoord(c, d)) for a, b, c, d in record["grid"]}
        orientation = self.orientations[record.get("orientation") or "row"]
        spec = ttnn.ShardSpec(ttnn.CoreRangeSet(ranges), record["shard_shape"], orientation)
        return ttnn.MemoryConfig(layout, buffer, spec)

    def tensor(self, record: Message) -> Any:
        """An input as a row describes it; on the device without values."""
        ttnn = self.ttnn
        dtype, layout = self.dtypes[record["dtype"]], self.layouts[record["layout"]]
        if record.get("host"):
            return ttnn.zeros(tuple(record["shape"]), dtype=dtype, layout=layout)
        memory = self.memory_config(record)
        return ttnn.allocate_tensor_on_device(ttnn.Shape(record["shape"]), dtype, layout, self.device, memory)

    def is_tensor(self, value: Any) -> bool:
        return bool(isinstance(value, self.ttnn.Tensor))

    def on_device(self, tensor: Any) -> bool:
        return bool(tensor.storage_type() == self.ttnn.StorageType.DEVICE)

    def record(self, tensor: Any) -> Message:
        """A tensor as rows describe it: shape, padded shape, dtype, page layout and place."""
        found: Message = {
            "shape": list(tensor.shape),
            "padded": list(tensor.padded_shape),
            "dtype": self.dtype_names[str(tensor.dtype)],
            "layout": "tile" if tensor.layout == self.ttnn.TILE_LAYOUT else "rm",
        }
        if not self.on_device(tensor):
            return {**found, "host": True}
        memory = tensor.memory_config()
        found["memory_layout"] = self.memory_names[str(memory.memory_layout)]
        found["buffer"] = "dram" if memory.buffer_type == self.ttnn.BufferType.DRAM else "l1"
        spec = memory.shard_spec
        if spec is not None:
            found["shard_shape"] = list(spec.shape)
            found["grid"] = [[r.start.x, r.start.y, r.end.x, r.end.y] for r in spec.grid.ranges()]
            found["orientation"] = "row" if spec.orientation == self.orientations["row"] else "col"
        return found

    def tensors_in(self, value: Any) -> list[Any]:
        """Tensors of a call's result, in order: a tensor, or lists of tensors and of other things."""
        if self.is_tensor(value):
            return [value]
        if isinstance(value, list | tuple):
            return [tensor for part in value for tensor in self.tensors_in(part)]
        return []

    # -- L1 --------------------------------------------------------------------------------------------------
    def l1_in_use(self) -> int:
        """Bytes per bank that tensors hold."""
        return int(self.ttnn.get_memory_view(self.device, self.ttnn.BufferType.L1).total_bytes_allocated_per_bank)

    def free_everything(self) -> None:
        """Also what an op that failed half-way has left behind."""
        self.ttnn._ttnn.device.deallocate_buffers(self.device)

    def usage(self, nodes: traces.Nodes) -> Message:
        """`{peak_cb, peak_l1, peak_total}` of a capture; bytes per core."""
        found = self.ttnn.graph.extract_resource_usage_per_core(nodes)
        bound = 1 << 63
        peaks = {
            "peak_cb": found.peak_cb + found.peak_dataflow_buffer + found.peak_scratchpad,
            "peak_l1": found.peak_l1,
            "peak_total": found.peak_total,
        }
        if max(peaks["peak_l1"], peaks["peak_total"]) >= bound:  # the op freed an input
            return {**peaks, **traces.recounted(nodes), "peak_underflow": True}
        return peaks

    def settle(self) -> None:
        """Wait until everything that was asked for is done; a mock device does nothing."""
        if self.source != "mock":
            self.ttnn.synchronize_device(self.device)

    def captured(self, mode: Any, run: Callable[[], Any]) -> tuple[Any, traces.Nodes, BaseException | None]:
        """`(result, nodes, error)` of `run()` under a graph capture; exactly one of result and error counts."""
        graph = self.ttnn._ttnn.graph  # its Python wrapper records arguments as well, for which it needs torch
        if mode is not None:
            graph.begin_graph_capture(mode)
        result: Any = None
        problem: BaseException | None = None
        try:
            result = run()
        except Exception as error:  # noqa: BLE001 - whatever tt-metal throws is the answer
            problem = error
        return result, [] if mode is None else graph.end_graph_capture(), problem
