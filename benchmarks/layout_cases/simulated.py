"""The child: runs questions on the simulator and reads values, canaries and operands back.

    python simulated.py IN_FD OUT_FD

Reads pickled `OpQuery` objects, answers each with one line of JSON (`Outcome`). An instruction that the simulator
lacks ends the process; whoever started it takes that for the answer.

Every L1 operand lies between two canaries, and so does the result: the op is first run to learn where the result
goes and how large it is, then again with a gap of that size between two canaries. All L1 that is free holds garbage
beforehand, and so does the padding of operands in tiles: nothing may depend on either.

tt-metal is pointed at the simulator by `TTOPT_SIMULATOR` and `TTOPT_SFPI` (docs/values.md); an environment that sets
`TT_METAL_RUNTIME_ROOT` itself is taken as it is.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for folder in (ROOT, ROOT / "benchmarks"):
    sys.path.insert(0, str(folder))

from optimizer.opmodel.ttmetal import simulator  # noqa: E402

if "TT_METAL_RUNTIME_ROOT" not in os.environ:
    simulator.prepare("wormhole_b0", importlib.metadata.version("ttnn"))

import numpy as np  # noqa: E402
import ttnn  # noqa: E402

from optimizer.device import DeviceSpec  # noqa: E402
from optimizer.export.ttnn_py.preparation import prepared_text  # noqa: E402
from optimizer.ir.dtype import DType  # noqa: E402
from optimizer.ir.graph import Op  # noqa: E402
from optimizer.layouts.memory_config import PageLayout  # noqa: E402
from optimizer.layouts.op_config import (  # noqa: E402
    Conv2dConfig,
    LayerNormShardedMultiCoreProgramConfig,
    overwritten_operand,
)
from optimizer.opmodel.base import OpQuery, TensorSpec  # noqa: E402
from optimizer.opmodel.ttnn_calls import asked_inputs, call_text, dtype_text, memory_config_text  # noqa: E402
from optimizer.values.bounds import judge  # noqa: E402
from optimizer.values.compare import compare  # noqa: E402
from optimizer.values.operands import paddings, random_operands  # noqa: E402
from optimizer.values.reference import reference  # noqa: E402
from optimizer.values.reference.kinds import Array, Computed  # noqa: E402

L1_SMALL_BYTES = 32768
DEVICE = DeviceSpec.preset("n150")
CANARY_BYTES = 4096
"""Per core; a multiple of every alignment."""
GARBAGE = 0x45BB45BB
"""Two bfloat16 of 5,984: what free L1 holds."""
SEED = 0
PADDING = 3.0
"""What the padding of tiles holds, but for masks of attention, which are filled, and block floats, whose elements share
an exponent with it (`optimizer.values.operands`)."""
GRID_YX = (8, 8)
ALIGNMENT = 16
"""Of rows in L1."""


class Bench:
    """An open device and what is put around an op's tensors."""

    def __init__(self) -> None:
        self.device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_BYTES)
        self.device.disable_and_clear_program_cache()  # whose programs own tensors that `free` would free
        rows, columns = GRID_YX
        ranges = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))
        self.cores = ttnn.CoreRangeSet([ranges])
        self.count = rows * columns

    # -- tensors that are no operands ------------------------------------------------------------------------
    def block(self, size_bytes: int, pattern: int, fill: bool = True) -> Any:
        """A tensor of so many bytes on every core."""
        words = size_bytes // 4
        kind = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        spec = ttnn.ShardSpec(self.cores, [1, words], ttnn.ShardOrientation.ROW_MAJOR)
        memory = ttnn.MemoryConfig(kind, ttnn.BufferType.L1, spec)
        if not fill:
            shape = ttnn.Shape([self.count, words])
            return ttnn.allocate_tensor_on_device(shape, ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT, self.device, memory)
        held = ttnn.Tensor(np.full((self.count, words), pattern, np.uint32), ttnn.uint32)
        return ttnn.to_device(held, self.device, memory_config=memory)

    def canary(self, canaries: list[tuple[Any, int]]) -> None:
        pattern = 0x3C000000 + 0x10101 * (len(canaries) + 1)
        canaries.append((self.block(CANARY_BYTES, pattern), pattern))

    def spoil(self) -> None:
        """Garbage in all L1 that is free."""
        view = ttnn.get_memory_view(self.device, ttnn.BufferType.L1)
        size = view.largest_contiguous_bytes_free_per_bank // 1024 * 1024
        ttnn.deallocate(self.block(size, GARBAGE))

    # -- operands and results ----------------------------------------------------------------------------------
    def host(self, spec: TensorSpec, values: Array, padding: float | None) -> Any:
        """A host tensor in its element type and page layout."""
        dtype = eval(dtype_text(spec.dtype), {"ttnn": ttnn})
        if not spec.dtype.is_float:
            kind = {DType.U32: np.uint32, DType.U16: np.uint16, DType.U8: np.uint8}.get(spec.dtype, np.int32)
            held = ttnn.Tensor(np.ascontiguousarray(values.astype(kind)), dtype)
        else:
            held = ttnn.Tensor(np.ascontiguousarray(values.astype(np.float32)), ttnn.float32)
            if not spec.dtype.is_block_float:
                held = ttnn.to_dtype(held, dtype)
        if spec.layout.page_layout is not PageLayout.TILE or spec.layout.is_host:
            return held
        if padding is not None and len(spec.shape) >= 2:
            held = held.pad_to_tile(padding)
        held = held.to(ttnn.TILE_LAYOUT)
        return ttnn.to_dtype(held, dtype) if spec.dtype.is_block_float else held

    def values(self, tensor: Any) -> Array:
        """Elements of a tensor, wherever it is."""
        held = ttnn.from_device(tensor) if ttnn.is_tensor_storage_on_device(tensor) else tensor
        if held.dtype in (ttnn.uint32, ttnn.int32, ttnn.uint16, ttnn.uint8):
            return np.asarray(ttnn.to_layout(held, ttnn.ROW_MAJOR_LAYOUT).to_numpy())
        if held.layout == ttnn.TILE_LAYOUT:
            held = ttnn.to_dtype(held, ttnn.float32)
            return np.asarray(ttnn.to_layout(held, ttnn.ROW_MAJOR_LAYOUT).to_numpy())
        return np.asarray(ttnn.to_dtype(held, ttnn.float32).to_numpy())

    def placed(self, host: Any, memory: Any) -> Any:
        """A host tensor on the device; by a copy there, as programs make them, where the host cannot write shards."""
        if host.layout == ttnn.ROW_MAJOR_LAYOUT and memory.is_sharded() and not _host_writes(host, memory):
            held = ttnn.to_device(host, self.device)
            copied = ttnn.to_memory_config(held, memory)
            ttnn.deallocate(held)
            return copied
        return ttnn.to_device(host, self.device, memory_config=memory)

    def reads_back(self, tensor: Any, given: Array) -> bool:
        """Whether the host finds on the device what it has put there; weights that are prepared look otherwise."""
        held = self.values(tensor)
        return held.size != given.size or bool((held.ravel() == given.ravel()).all())


class Case:
    """One question being run."""

    def __init__(self, bench: Bench, query: OpQuery, padding: float | None) -> None:
        self.bench, self.query = bench, query
        self.names = [f"x{index}" for index in range(len(query.inputs))]
        self.call = compile(call_text(query, self.names), "<call>", "eval")
        specs, given = asked_inputs(query), random_operands(query, SEED)
        filled = [max(p) if p and max(p) < 0 else padding for p in paddings(query)]
        whole = (query.output_dtype or specs[0].dtype).is_block_float
        filled = [0.0 if whole or s.dtype.is_block_float else p for s, p in zip(specs, filled, strict=True)]
        self.hosts = [bench.host(s, v.reshape(s.shape), p) for s, v, p in zip(specs, given, filled, strict=True)]
        self.given = [bench.values(host).reshape(s.shape) for host, s in zip(self.hosts, query.inputs, strict=True)]
        op = Op("op", query.op, tuple(self.names), ("y",), dict(query.attrs))
        self.prepared = [prepared_text(op, query, k, name, DEVICE, L1_SMALL_BYTES) for k, name in enumerate(self.names)]

    def wanted(self) -> list[Computed]:
        """The results in float64, of the operands as rounded."""
        query = self.query
        if query.op in _COPIES:
            return [Computed.exactly(self.given[0].astype(np.float64))]
        fused = getattr(query.config, "fused_activation", None) or getattr(query.config, "activation", None)
        if fused and not query.attr.get("activation"):
            query = replace(query, attrs=tuple(sorted({**query.attr, "activation": fused}.items())))
        return reference(query, self.given)

    def place(self, canaries: list[tuple[Any, int]] | None) -> dict[str, Any]:
        """Operands on the device, canaries around those in L1."""
        found: dict[str, Any] = {"ttnn": ttnn, "device": self.bench.device}
        if canaries is not None:
            self.bench.canary(canaries)
        specs = asked_inputs(self.query)
        for name, spec, host, text in zip(self.names, specs, self.hosts, self.prepared, strict=True):
            tensor = host
            if not spec.layout.is_host:
                tensor = self.bench.placed(host, eval(memory_config_text(spec.layout.memory), {"ttnn": ttnn}))
            found[name] = tensor
            if text is not None and spec.layout.is_host:
                found[name] = eval(text, found)
            if canaries is not None and spec.layout.is_l1:
                self.bench.canary(canaries)
        return found

    def run(self, names: dict[str, Any]) -> list[Any]:
        result = eval(self.call, names)
        return list(result) if isinstance(result, list | tuple) else [result]


_COPIES = ("ttnn.to_memory_config", "ttnn.to_layout")
"""Ops whose result is their operand, somewhere else."""


def _host_writes(host: Any, memory: Any) -> bool:
    """Whether `ttnn.to_device` puts rows where these shards have them: not if shards are wider than what is left of a
    row, nor if their rows are padded."""
    width = memory.shard_spec.shape[1]
    return host.shape[-1] % width == 0 and width * 2 % ALIGNMENT == 0


def judged(bench: Bench, query: OpQuery, padding: float | None) -> dict[str, Any]:
    """Runs a question twice; the second time with canaries."""
    case = Case(bench, query, padding)
    size, address = probed(bench, case)
    free(bench)
    bench.spoil()
    canaries: list[tuple[Any, int]] = []
    names = case.place(canaries)
    kept = [k for k, text in enumerate(case.prepared) if text is None]
    unreadable = [k for k in kept if not bench.reads_back(names[f"x{k}"], case.given[k])]
    gap = None
    if size:
        gap = bench.block(size, 0, fill=False)
        address = gap.buffer_address()
        bench.canary(canaries)
        ttnn.deallocate(gap)
    results = case.run(names)
    placed = [r.buffer_address() for r in results if _in_l1(r)]
    faults: list[str] = []
    for index, (tensor, pattern) in enumerate(canaries):
        changed = int((ttnn.from_device(tensor).to_numpy() != pattern).sum())
        if changed:
            faults.append(f"canary {index} of {len(canaries)} has {changed} words overwritten")
    freed = overwritten_operand(query.config)
    if isinstance(query.config, LayerNormShardedMultiCoreProgramConfig) and query.config.inplace:
        freed = 0
    if isinstance(query.config, Conv2dConfig) and query.config.deallocate_activation:
        freed = 0
    for index in kept:
        spec, given = query.inputs[index], case.given[index]
        if index == freed or index in unreadable or spec.layout.is_host or not names[f"x{index}"].is_allocated():
            continue
        now = bench.values(names[f"x{index}"])
        if now.size == given.size and (changed := int((now.ravel() != given.ravel()).sum())):
            faults.append(f"operand {index} has {changed} of {given.size} elements changed")
    wrong = compared(case, [bench.values(r) for r in results])
    second = None
    if wrong.wrong and all(_in_l1(r) and r.memory_config().is_sharded() for r in results):
        second = compared(case, [bench.values(ttnn.to_memory_config(r, ttnn.DRAM_MEMORY_CONFIG)) for r in results])
        if second.wrong == 0:
            wrong, second = second, wrong
    return {
        "faults": faults,
        "other_reading": None if second is None else str(second),
        "unreadable": unreadable,
        "wrong": wrong.wrong,
        "values": str(wrong),
        "error": wrong.relative_error,
        "beside_canaries": bool(placed) and placed[0] == address if size else None,
        "results": [f"{list(r.shape)} {r.memory_config()}" for r in results][:2],
    }


def probed(bench: Bench, case: Case) -> tuple[int, int]:
    """(bytes per core, address) of the first result, if it is a new tensor in L1, after a run without canaries."""
    names = case.place(None)
    before = _taken(bench)
    result = case.run(names)[0]
    if not _in_l1(result) or overwritten_operand(case.query.config) is not None:
        return 0, 0
    address = result.buffer_address()
    if any(ttnn.is_tensor_storage_on_device(names[n]) and _in_l1(names[n]) and names[n].buffer_address() == address
           for n in case.names if names[n].is_allocated()):  # fmt: skip
        return 0, 0
    after = _taken(bench)
    ttnn.deallocate(result)
    del before
    return after - _taken(bench), address


def _taken(bench: Bench) -> int:
    return int(ttnn.get_memory_view(bench.device, ttnn.BufferType.L1).total_bytes_allocated_per_bank)


def _in_l1(tensor: Any) -> bool:
    return bool(tensor.is_allocated() and tensor.memory_config().buffer_type == ttnn.BufferType.L1)


def free(bench: Bench) -> None:
    ttnn._ttnn.device.deallocate_buffers(bench.device)


@dataclass(frozen=True)
class Difference:
    """How far a result is from its reference."""

    wrong: int
    """Elements further off than rounding explains (`optimizer.values.bounds`)."""
    elements: int
    relative_error: float
    worst: float
    """Of an element, the largest error over its limit."""

    def __str__(self) -> str:
        found = f"{self.wrong} of {self.elements} values wrong, relative error {self.relative_error:.3g}"
        return f"{found}, at most {self.worst:.3g} of the limit"


def compared(case: Case, got: list[Array]) -> Difference:
    """The worst difference of any result."""
    wanted, query = case.wanted(), case.query
    found = []
    for index, (ours, exact) in enumerate(zip(got, wanted, strict=True)):
        if ours.size != exact.value.size:
            raise ValueError(f"result {index} has shape {ours.shape}, expected {exact.value.shape}")
        ours = ours.reshape(exact.value.shape)
        verdict = judge(query, query.output_dtype or query.inputs[0].dtype, ours, exact)
        error = compare(ours, exact.value).relative_error
        found.append(Difference(verdict.wrong, ours.size, error, verdict.worst))
    return max(found, key=lambda d: (d.wrong, d.relative_error))


def answer(bench: Bench, query: OpQuery) -> dict[str, Any]:
    """An outcome; what TTNN refuses is one."""
    started = time.perf_counter()
    found: dict[str, Any]
    try:
        found = judged(bench, query, PADDING)
        if found["wrong"] and any(s.layout.is_tile for s in query.inputs):
            free(bench)
            found["clean_padding"] = judged(bench, query, 0.0)["values"]
    except Exception as error:  # noqa: BLE001 - whatever TTNN throws is the answer
        found = {"refused": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300]}
        lines = [line for line in str(error).splitlines() if line.strip()]
        found["more"] = " | ".join(lines[1:4])[:300]
    finally:
        free(bench)
    return {**found, "seconds": round(time.perf_counter() - started, 2)}


def main() -> None:
    source, target = (os.fdopen(int(fd), mode) for fd, mode in zip(sys.argv[1:3], ("rb", "wb"), strict=True))
    bench = Bench()
    while True:
        try:
            query = pickle.load(source)
        except EOFError:
            break
        target.write(json.dumps(answer(bench, query)).encode() + b"\n")
        target.flush()


if __name__ == "__main__":
    main()
