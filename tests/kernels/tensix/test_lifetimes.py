"""The picture of values in DST: the design document's Example 6, and inputs whose slots are others' in between."""

from __future__ import annotations

import json
from pathlib import Path

from optimizer.kernels.tensix.emitted import lifetimes_of, picture
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.passes.assign_dst import Allocator
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import TileCase, case_program, read_cases

CASES = {c.id: c for c in read_cases(json.loads(Path("fixtures/kernels/tile_cases.json").read_text(encoding="utf-8")))}
EXAMPLE_6 = """\
%v1, %v2: 1 tiles, 1 per section, tile by tile
               0 1 2 3 4 5 6 7 8
  %in0  [1-4]    ███████          DST[0]  loaded
  %in1  [2-4]      █████          DST[1]  loaded
  %in2  [3-7]        █████████    DST[2]  loaded
  %t_6  [4-7]          ███████    DST[3]  mul
  %t_7  [5-6]            ███      DST[4]  copy_dst
  %v1   [6-8]              █████  DST[4]  abs
  %v2   [7-8]                ███  DST[5]  add
footprint 4, 6 slots"""


def planned(case: TileCase, allocator: Allocator = "default", capacity: int | None = None) -> Op:
    stages: dict[str, Op] = {}
    lower(case_program(case), KernelOptions(allocator=allocator, capacity=capacity), stages.__setitem__)
    return stages["assign-dst"]


def test_the_documents_example_6() -> None:
    """Its intervals and slots; its steps count from the first op, ours from the first load."""
    assert picture(planned(CASES["s_ex6_mixed"], "seed")) == EXAMPLE_6


def _reread(capacity: int) -> tuple[Op, TileCase]:
    """`x` is read at the beginning and at the end; between them, other values need slots."""
    ops = [("p", "max", "x y"), ("q", "max", "p z"), ("r", "abs", "q"), ("s", "max", "r x")]
    nodes = [{"name": n, "op": op, "args": args.split()} for n, op, args in ops]
    case = read_cases(
        {"cases": [{"id": "x", "inputs": ["x", "y", "z"], "outputs": ["o"], "ops": nodes, "yield": ["s"]}]}
    )
    program = planned(case[0], capacity=capacity)
    return next(op for op in walk(program) if op.name == "ttl.compute"), case[0]


def test_an_input_stays_where_there_are_slots() -> None:
    compute, _ = _reread(8)
    assert all(life.holes == () for life in lifetimes_of(compute))


def test_in_a_hole_the_slot_is_anothers() -> None:
    compute, _ = _reread(2)
    lives = lifetimes_of(compute)
    holed = next(life for life in lives if life.holes)
    (begin, end), slot = holed.holes[0], holed.segments[0].slot
    others = [s for life in lives if life is not holed for s in life.segments if s.slot == slot]
    assert any(begin <= s.start and s.end <= end for s in others)
