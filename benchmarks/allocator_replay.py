"""Does the replay of tt-metal's L1 allocator give the very addresses that the real one gives?

    python benchmarks/allocator_replay.py [--programs 300] [--boards n150 p150] [--seed 0]

Random programs of 20 to 200 steps run through a ttmetal program session (mock devices): interleaved and sharded
tensors of random sizes, in L1 and in the small region, come and go in several orders, and ops run whose circular
buffers may reach them. After every step the real outcome (address, out of memory, clash) is compared with that of
`optimizer.l1.allocator`. Exits 1 at any difference. Without ttnn it says so and exits 0.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.ir.dtype import DType
from optimizer.l1.allocator import L1Allocator
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.tiling import TILE, l1_bytes_per_core
from optimizer.opmodel.base import OpQuery, ProgramSession, Rejection, TensorSpec
from optimizer.opmodel.registry import create
from optimizer.opmodel.ttmetal import location
from optimizer.opmodel.ttmetal.model import TTMetalOpModel

L1_SMALL_BYTES = 32768
PROGRAMS_PER_SESSION = 20
"""A step that leaves a buffer behind makes the session start again from its first step."""
LARGEST_BYTES = 300_000
"""Per core, of one tensor."""
DTYPES = {DType.BF16: "bfloat16", DType.F32: "float32", DType.BFP8_B: "bfloat8_b"}
SOURCE = """
import ttnn

def made(shape, dtype, layout, kind, buffer, shard=None, corner=None):
    memory = ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, kind), getattr(ttnn.BufferType, buffer))
    if shard is not None:
        cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(*corner))})
        spec = ttnn.ShardSpec(cores, shard, ttnn.ShardOrientation.ROW_MAJOR)
        memory = ttnn.MemoryConfig(memory.memory_layout, memory.buffer_type, spec)
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(shape), getattr(ttnn, dtype), getattr(ttnn, layout), device, memory)
"""


# -- random tensors ------------------------------------------------------------------------------------------
def random_tensor(random: Random, device: DeviceSpec, small: bool) -> TensorSpec:
    """A tensor in L1 of any kind; in the small region tt-metal wants shards, here of few bytes."""
    largest = 4096 if small else LARGEST_BYTES
    target = int(largest ** random.uniform(0.45, 1.0))
    kind = TensorMemoryLayout.HEIGHT_SHARDED if small else random.choice(list(TensorMemoryLayout))
    page = random.choice(list(PageLayout))
    dtype = random.choice([d for d in DTYPES if page is PageLayout.TILE or not d.is_block_float])
    build = _interleaved if kind is TensorMemoryLayout.INTERLEAVED else _sharded
    return build(random, device, kind, page, dtype, target)


def _interleaved(
    random: Random, device: DeviceSpec, kind: TensorMemoryLayout, page: PageLayout, dtype: DType, target: int
) -> TensorSpec:
    memory = MemoryConfig(kind, BufferType.L1)
    if page is PageLayout.TILE:
        pages = max(1, target // dtype.tile_bytes) * device.num_cores - random.randrange(device.num_cores)
        columns = random.randint(1, min(16, pages))
        shape = (max(1, pages // columns) * TILE - random.randrange(TILE), columns * TILE - random.randrange(TILE))
    else:
        width = random.randint(1, max(1, min(2048, target // dtype.element_bytes)))
        rows = max(1, target // (width * dtype.element_bytes)) * device.num_cores - random.randrange(device.num_cores)
        shape = (rows, width)
    return TensorSpec(shape, dtype, TensorLayout(page, memory))


def _sharded(
    random: Random, device: DeviceSpec, kind: TensorMemoryLayout, page: PageLayout, dtype: DType, target: int
) -> TensorSpec:
    rows, columns = random.randint(1, device.grid_yx[0]), random.randint(1, device.grid_yx[1])
    if page is PageLayout.TILE:
        tiles = max(1, target // dtype.tile_bytes)
        wide = random.randint(1, min(16, tiles))
        shard = (tiles // wide * TILE, wide * TILE)
    else:
        step = device.l1_alignment_bytes // dtype.element_bytes
        wide = random.randint(1, max(1, min(128, target // device.l1_alignment_bytes))) * step
        shard = (max(1, target // (wide * dtype.element_bytes)), wide)
    cores = rows * columns
    height, width = TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED
    grid = {height: (cores, 1), width: (1, cores)}.get(kind, (rows, columns))
    spec = ShardSpec(grid, shard, ((0, 0, columns - 1, rows - 1),))
    missing = random.randrange(shard[0]) if kind is not width else 0
    shape = (shard[0] * grid[0] - missing, shard[1] * grid[1])
    return TensorSpec(shape, dtype, TensorLayout(page, MemoryConfig(kind, BufferType.L1, spec)))


def creation(tensor: TensorSpec, small: bool) -> str:
    """The call of `made` for a tensor."""
    layout, spec = tensor.layout, tensor.layout.shard_spec
    page = "TILE_LAYOUT" if layout.page_layout is PageLayout.TILE else "ROW_MAJOR_LAYOUT"
    words = (tensor.shape, DTYPES[tensor.dtype], page, layout.memory_layout.name, "L1_SMALL" if small else "L1")
    shards = () if spec is None else (spec.shape, spec.core_ranges[0][2:])
    return f"made{(*words, *shards)!r}"


# -- programs ------------------------------------------------------------------------------------------------
@dataclass
class Outcome:
    """What was compared, and where the two differ."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)


class Program:
    """One random program: the next step depends on what is live, so it is made while it runs."""

    def __init__(self, session: ProgramSession, model: TTMetalOpModel, seed: int, outcome: Outcome) -> None:
        device, top = model.device, model.device.worker_l1_bytes - model.l1_small_bytes
        self._session, self._model, self._device, self._outcome = session, model, device, outcome
        self._random = Random(seed)
        self._place = f"{device.name} program {seed}"
        unit = device.l1_buffer_alignment_bytes
        self._l1 = L1Allocator(device.cb_base_bytes, top, unit)
        self._small = L1Allocator(top, device.worker_l1_bytes, unit)
        self._addresses: dict[str, int] = {}
        self._live: dict[str, TensorSpec] = {}
        self._step = 0

    def run(self) -> None:
        """All steps up to the first difference; afterwards nothing is live and the real L1 must be empty."""
        random = self._random
        freeing, style = random.uniform(0.2, 0.5), random.choice(["any", "oldest", "newest"])
        self._outcome.counts["programs"] += 1
        for self._step in range(random.randint(20, 200)):
            if self._live and random.random() < freeing:
                self._free(self._victim(style))
            elif random.random() < 0.1 and self._operands():
                self._softmax(random.choice(self._operands()))
            else:
                self._make()
            if self._outcome.differences:
                return
        while self._live:
            self._free(self._victim(style))
        left = self._session.step("pass").l1_before_bytes
        if left:
            self._differs(f"{left} B are left at the end")

    def _victim(self, style: str) -> str:
        names = list(self._live)
        if style == "any" or self._random.random() < 0.2:
            return self._random.choice(names)
        return names[0] if style == "oldest" else names[-1]

    def _operands(self) -> list[str]:
        return [
            name
            for name, t in self._live.items()
            if t.dtype is DType.BF16 and t.layout.is_tile and not t.layout.is_sharded and not name.startswith("small")
        ]

    def _make(self) -> None:
        small = self._random.random() < 0.08
        tensor = random_tensor(self._random, self._device, small)
        name = f"{'small' if small else 't'}{self._step}"
        address = self._allocator(name).allocate(self._bytes(tensor))
        refusal = Rejection.OOM_L1 if address is None else None
        self._compare(name, f"{name} = {creation(tensor, small)}", tensor, address, refusal)

    def _softmax(self, operand: str) -> None:
        """Result first, then the program's circular buffers; a refused op leaves nothing."""
        tensor, name = self._live[operand], f"t{self._step}"
        query = OpQuery("ttnn.softmax", (tensor,), (("dim", -1),), output=tensor.layout.memory)
        needs = self._model.constraints(query)
        if not needs.valid:
            return
        address = self._l1.allocate(self._bytes(tensor))
        refusal = Rejection.OOM_L1 if address is None else None
        lowest = self._l1.lowest_address
        if address is not None and lowest is not None and self._device.cb_base_bytes + needs.cb_bytes > lowest:
            refusal = Rejection.CB_CLASH
            self._l1.free(address)
        self._compare(name, f"{name} = ttnn.softmax({operand}, dim=-1)", tensor, address, refusal)

    def _allocator(self, name: str) -> L1Allocator:
        return self._small if name.startswith("small") else self._l1

    def _bytes(self, tensor: TensorSpec) -> int:
        return l1_bytes_per_core(tensor.shape, tensor.dtype, tensor.layout, self._device)

    def _free(self, name: str) -> None:
        del self._live[name]
        self._allocator(name).free(self._addresses.pop(name))
        answer = self._session.step(f"ttnn.deallocate({name})")
        self._outcome.counts["frees"] += 1
        if not answer.valid:
            self._differs(f"cannot free {name}: {answer.error}")

    def _compare(
        self, name: str, code: str, tensor: TensorSpec, address: int | None, refusal: Rejection | None
    ) -> None:
        """The step on tt-metal: a tensor at this address, or this refusal."""
        answer = self._session.step(code, [name])
        counts = self._outcome.counts
        if refusal is None and address is not None:
            counts["allocations"] += 1
            self._live[name], self._addresses[name] = tensor, address
            if not answer.valid or answer.addresses != (address,):
                self._differs(f"{code}: expected {address}, got {answer.addresses} {answer.error or ''}")
            return
        counts[str(refusal)] += 1
        if answer.valid or answer.kind is not refusal:
            self._differs(f"{code}: expected {refusal}, got {answer.addresses} {answer.kind} {answer.error or ''}")

    def _differs(self, text: str) -> None:
        self._outcome.differences.append(f"{self._place} step {self._step}: {text}")


def compare(board: str, seeds: range) -> Outcome:
    """Programs of these seeds on one board; a session ends at its first difference, as all later ones follow."""
    outcome = Outcome()
    model = create("ttmetal", DeviceSpec.preset(board), L1_SMALL_BYTES)
    if not isinstance(model, TTMetalOpModel):
        raise OpModelError("the backend 'ttmetal' runs no programs")
    for start in seeds[::PROGRAMS_PER_SESSION]:
        with model.program(SOURCE) as session:
            for seed in range(start, min(start + PROGRAMS_PER_SESSION, seeds.stop)):
                Program(session, model, seed, outcome).run()
                if outcome.differences:
                    return outcome
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=300, help="in all, shared by the boards")
    parser.add_argument("--boards", nargs="+", default=["n150", "p150"])
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    args = parser.parse_args()
    try:
        print(location.find().describe())
    except OpModelError as error:
        print(f"skipped: {error}")
        return 0
    each, failed = -(-args.programs // len(args.boards)), False
    for index, board in enumerate(args.boards):
        first = args.seed + index * each
        outcome = compare(board, range(first, first + each))
        counts = ", ".join(f"{count} {name}" for name, count in sorted(outcome.counts.items()))
        print(f"{board}: {counts}; {len(outcome.differences)} differences")
        for text in outcome.differences[:20]:
            print(f"  {text}")
        failed |= bool(outcome.differences)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
