"""Every function of a run leaves behind what it returns and nothing else, and frees nothing that its caller made."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, cast

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.case import Case
from optimizer.opmodel.analytical.device_run.session import Buffer, Held, Session, scoped, view
from optimizer.opmodel.base import OpModel, OpQuery, TensorSpec
from optimizer.opmodel.rows import query_from_row

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "opmodel"
ROWS = PageLayout.ROW_MAJOR
HERE = __name__.rpartition(".")[2]


@scoped
def _nothing(session: Session) -> None:
    """Its code is that of every scoped function."""


SCOPED: CodeType = cast(FunctionType, _nothing).__code__
EVENTS = sys.monitoring.events
TOOL = sys.monitoring.PROFILER_ID


class Watch:
    """Looks at the tensors of a run before and after every function whose first parameter is its session.

    Endless sessions are left out: a convolution frees its operand, and keeps what it made, as its config says.
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.seen: set[str] = set()
        self._before: dict[FrameType, set[Buffer]] = {}

    def __enter__(self) -> Watch:
        sys.monitoring.use_tool_id(TOOL, "lifetimes")
        sys.monitoring.register_callback(TOOL, EVENTS.PY_START, self._start)
        sys.monitoring.register_callback(TOOL, EVENTS.PY_RETURN, self._return)
        sys.monitoring.set_events(TOOL, EVENTS.PY_START | EVENTS.PY_RETURN)
        return self

    def __exit__(self, *_: object) -> None:
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.free_tool_id(TOOL)

    def _start(self, code: CodeType, _: int) -> object:
        if not _is_given_a_session(code):
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        if frame.f_locals["session"].endless:
            return None
        name = _name(frame)
        self.seen.add(name)
        self._before[frame] = set(frame.f_locals["session"].live)
        self._expect(name, "is given what is gone", not _gone(tuple(frame.f_locals.values())))
        return None

    def _return(self, code: CodeType, _: int, value: object) -> object:
        if not _is_given_a_session(code):
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        before = self._before.pop(frame, None)
        if before is None:
            return None
        if frame.f_back is not None and frame.f_back.f_code is SCOPED:
            return None  # what it made is freed after it has returned
        name, after = _name(frame), set(frame.f_locals["session"].live)
        left = after - before - {held.buffer for held in _tensors(value)}
        self._expect(name, f"leaves {len(left)}", not left)
        self._expect(name, "frees what its caller made", before <= after)
        self._expect(name, "returns what is gone", not _gone(value))
        return None

    def _expect(self, name: str, fault: str, holds: bool) -> None:
        if not holds:
            self.faults.append(f"{name} {fault}")


def _is_given_a_session(code: CodeType) -> bool:
    return code.co_argcount > 0 and code.co_varnames[0] == "session"


def _name(frame: FrameType) -> str:
    """Module and name of the function, of a scoped one its own."""
    if frame.f_code is SCOPED:
        return _qualified(frame.f_locals["function"])
    return f"{frame.f_globals['__name__'].rpartition('.')[2]}.{frame.f_code.co_name}"


def _qualified(function: Any) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"


def _tensors(value: Any) -> list[Held]:
    if isinstance(value, tuple | list):
        return [held for item in value for held in _tensors(item)]
    return [value] if isinstance(value, Held) else []


def _gone(value: Any) -> bool:
    return any(held.buffer.freed for held in _tensors(value))


def _scoped_functions() -> set[str]:
    modules = [m for name, m in sys.modules.items() if name.startswith("optimizer.opmodel.analytical.")]
    return {_qualified(f) for m in modules for f in vars(m).values() if getattr(f, "__code__", None) is SCOPED}


def _recorded() -> Iterator[tuple[str, OpQuery]]:
    """(board, query) of every recorded row."""
    for name in ("sample", "movement", "reductions"):
        for line in (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield row["board"], query_from_row(row, f"row {row['id']} of {name}")


def _rare(layouts: Any) -> dict[str, OpQuery]:
    """Ways through the programs that no recorded row takes, or in which it would not show that a tensor stays."""
    place, bf16, block = layouts.tensor, DType.BF16, DType.BFP8_B

    def ask(op: str, *inputs: TensorSpec, **attrs: Any) -> OpQuery:
        return OpQuery(f"ttnn.{op}", inputs, tuple(sorted(attrs.items())), output=layouts.l1)

    def l1(shape: tuple[int, ...], dtype: DType = bf16) -> TensorSpec:
        return place(shape, layouts.l1, dtype)

    narrow = layouts.width(4, 64, 32)
    in_dram = MemoryConfig(narrow.memory_layout, BufferType.DRAM, narrow.shard_spec)
    ends = ((0, 1), (0, 1), (0, 0), (0, 32), (0, 0))
    return {
        "concat in batches": ask("concat", *[l1((1, 1, 64, 64))] * 50, dim=2),
        "split in batches": ask("split", l1((1, 1, 64, 130 * 32)), dim=3, sizes=(32,) * 130),
        "pad of five dims": ask("pad", l1((2, 3, 2, 64, 64)), padding=ends, value=0.0),
        "pad of DRAM shards": ask(
            "pad", place((1, 1, 64, 128), in_dram, bf16, ROWS), padding=((0, 0), (0, 0), (0, 32), (0, 0)), value=0.0
        ),
        "repeat of five dims": ask("repeat", l1((1, 1, 2, 64, 64)), repeats=(1, 2, 2, 2, 1)),
        "repeat_interleave of blocks": ask("repeat_interleave", l1((8, 196, 768), block), repeats=4, dim=2),
        "to_layout of long rows": ask(
            "to_layout", place((32, 16384), layouts.width(64, 32, 256), bf16, ROWS), layout="tile"
        ),
        "tilize_with_zero_padding of long rows": ask(
            "tilize_with_zero_padding", place((20, 16384), layouts.block((4, 8), 5, 2048), bf16, ROWS)
        ),
        "sum of blocks": ask("sum", l1((2, 2, 50, 200), block), dim=(0, 3), keepdim=True),
        "sum of three leading dims": ask("sum", l1((4, 4, 4, 64, 64)), dim=(0, 1, 2), keepdim=True),
        "topk of columns": ask("topk", l1((128, 2048)), k=5, dim=0),
        "topk of short block rows": ask("topk", l1((1, 1, 64, 20), block), k=8, dim=-1),
        "gather of columns": ask("gather", l1((3, 20, 64)), layouts.tensor((3, 32, 64), dtype=DType.U16), dim=1),
    }


PEAKS = {
    "concat in batches": (16384, 20480),
    "split in batches": (268288, 272400),
    "pad of five dims": (10240, 16384),
    "pad of DRAM shards": (512, 33536),
    "repeat of five dims": (4096, 6272),
    "repeat_interleave of blocks": (205632, 211904),
    "to_layout of long rows": (16384, 87232),
    "tilize_with_zero_padding of long rows": (16384, 87232),
    "sum of blocks": (3264, 15424),
    "sum of three leading dims": (8192, 51200),
    "topk of columns": (16384, 51200),
    "topk of short block rows": (7360, 38208),
    "gather of columns": (4096, 16384),
}
"""Bytes of tensors made, and with buffers, at the peak; more where a tensor outlives its use."""


def test_functions_leave_what_they_return(layouts: Any) -> None:
    models = {board: registry.create("analytical", DeviceSpec.preset(board)) for board in ("n150", "p150")}
    with Watch() as watch:
        for board, query in chain(_recorded(), (("n150", query) for query in _rare(layouts).values())):
            models[board].constraints(query)
    assert sorted(set(watch.faults)) == []
    assert sorted(_scoped_functions() - watch.seen) == []


def test_what_a_step_replaces_is_gone_before_the_next(layouts: Any, analytical: OpModel) -> None:
    found = {name: analytical.constraints(query) for name, query in _rare(layouts).items()}
    assert {name: (answer.l1_peak_bytes, answer.peak_bytes) for name, answer in found.items()} == PEAKS


@pytest.fixture
def session(n150: DeviceSpec) -> Session:
    return Session(Case(OpQuery("ttnn.reshape", (), ()), n150, {}, 0))


@pytest.fixture
def made(session: Session, layouts: Any) -> Callable[[], Held]:
    return lambda: session.make((64, 64), DType.BF16, PageLayout.TILE, layouts.l1)


def test_a_scope_ends_what_it_does_not_return(session: Session, made: Callable[[], Held]) -> None:
    given = made()

    @scoped
    def two_of_three(session: Session) -> tuple[Held, ...]:
        first, _, third = made(), made(), made()
        return view(third, (1, 64, 64)), first

    kept = two_of_three(session)
    assert session.live == [given.buffer, kept[1].buffer, kept[0].buffer]
    assert session.tensors == 3 * given.buffer.size


def test_replacing_frees_what_this_function_made_and_nothing_reads(session: Session, made: Callable[[], Held]) -> None:
    given = made()

    @scoped
    def steps(session: Session, held: Held) -> Held:
        out = session.replace(held, made())
        assert not held.buffer.freed  # the caller's
        out = session.replace(out, view(out, (1, 64, 64)))
        assert not out.buffer.freed  # still read
        last = session.replace(out, made())
        assert out.buffer.freed
        return last

    assert session.live == [given.buffer, steps(session, given).buffer]


def test_the_end_of_a_tensor_comes_once(session: Session, made: Callable[[], Held]) -> None:
    held = made()
    session.free(held)
    with pytest.raises(StateError, match="that is gone"):
        session.free(held)
    with pytest.raises(StateError, match="that is gone"):
        session.replace(held, made())
    with pytest.raises(StateError, match="freed before its end"):
        session.usage(held)


def test_a_function_does_not_free_what_its_caller_made(session: Session, made: Callable[[], Held]) -> None:
    @scoped
    def frees(session: Session, held: Held) -> None:
        session.free(held)

    with pytest.raises(StateError, match="the caller made"):
        frees(session, made())


def test_the_watch_finds_what_is_left_and_what_is_taken(session: Session, made: Callable[[], Held]) -> None:
    def leaves(session: Session) -> Held:
        made()
        return made()

    def takes(session: Session, held: Held) -> Held:
        session.free(held)
        return held

    with Watch() as watch:
        takes(session, leaves(session))
    assert watch.faults == [
        f"{HERE}.leaves leaves 1",
        f"{HERE}.takes frees what its caller made",
        f"{HERE}.takes returns what is gone",
    ]


@pytest.fixture
def endless(n150: DeviceSpec, layouts: Any) -> Session:
    """With an operand of 1 KiB in L1 on each core."""
    operand = layouts.tensor((32, 512), layouts.height(1, 32, 16), DType.BF16, ROWS)
    return Session(Case(OpQuery("ttnn.conv2d", (operand,), ()), n150, {}, 0), endless=True)


def test_an_endless_session_allocates_first_fit_from_the_top(endless: Session) -> None:
    def depth(buffer: Buffer) -> int:
        assert buffer.address is not None
        return endless.bank - 1024 - buffer.address

    first = endless.hold(100)
    second = endless.hold(50)
    endless.end(first)
    assert depth(endless.hold(80)) == 80  # fits the hole
    assert depth(endless.hold(60)) == 210  # does not
    endless.run(cb=40)
    assert endless.room == 250
    assert depth(second) == 150
    assert depth(endless.move(second)) == 130
    assert endless.peak_tensors == 190


def test_an_endless_session_counts_a_freed_operand(endless: Session) -> None:
    """tt-metal's counters start at the op, so an operand that the op frees counts against what it allocates."""
    endless.hold(300)
    endless.end(endless.inputs[0].buffer)
    endless.hold(400)
    assert endless.peak_tensors == 300
    assert endless.room == 300
    with pytest.raises(StateError, match="that is gone"):
        endless.end(endless.inputs[0].buffer)
