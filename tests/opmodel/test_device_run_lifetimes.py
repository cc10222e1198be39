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
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.rows import query_from_row

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "opmodel"
HERE = __name__.rpartition(".")[2]


@scoped
def _nothing(session: Session) -> None:
    """Its code is that of every scoped function."""


SCOPED: CodeType = cast(FunctionType, _nothing).__code__
EVENTS = sys.monitoring.events
TOOL = sys.monitoring.PROFILER_ID


class Watch:
    """Looks at the tensors of a run before and after every function whose first parameter is its session."""

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
        name = _name(frame)
        self.seen.add(name)
        self._before[frame] = set(frame.f_locals["session"].live)
        self._expect(name, "is given what is gone", not _gone(tuple(frame.f_locals.values())))
        return None

    def _return(self, code: CodeType, _: int, value: object) -> object:
        if not _is_given_a_session(code):
            return sys.monitoring.DISABLE
        frame = sys._getframe(1)
        before = self._before.pop(frame)
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


def _rare(layouts: Any) -> Iterator[tuple[str, OpQuery]]:
    """Ways through the programs that no recorded row takes."""
    many = (layouts.tensor((1, 1, 64, 64), layouts.l1),) * 50
    yield "n150", OpQuery("ttnn.concat", many, (("dim", 2),), output=layouts.l1)
    wide = layouts.tensor((1, 1, 64, 65 * 32), layouts.l1)
    yield "n150", OpQuery("ttnn.split", (wide,), (("dim", 3), ("sizes", (32,) * 65)))
    deep = layouts.tensor((2, 3, 2, 64, 64), layouts.l1)
    yield "n150", OpQuery("ttnn.pad", (deep,), (("padding", ((0, 1), (0, 1), (0, 0), (0, 0), (0, 0))), ("value", 0.0)))
    columns = layouts.width(4, 64, 32)
    shards = MemoryConfig(columns.memory_layout, BufferType.DRAM, columns.shard_spec)
    rows = layouts.tensor((1, 1, 64, 128), shards, page=PageLayout.ROW_MAJOR)
    below = (("padding", ((0, 0), (0, 0), (0, 32), (0, 0))), ("value", 0.0))
    yield "n150", OpQuery("ttnn.pad", (rows,), below, output=layouts.l1)


def test_functions_leave_what_they_return(layouts: Any) -> None:
    models = {board: registry.create("analytical", DeviceSpec.preset(board)) for board in ("n150", "p150")}
    with Watch() as watch:
        for board, query in chain(_recorded(), _rare(layouts)):
            models[board].constraints(query)
    assert sorted(set(watch.faults)) == []
    assert sorted(_scoped_functions() - watch.seen) == []


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
