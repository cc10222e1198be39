"""Layout and memory ops: to_memory_config, to_layout and the calls they stand for, as runs of their programs."""

from __future__ import annotations

from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run import tilize as tilizing
from optimizer.opmodel.analytical.device_run import transfer
from optimizer.opmodel.analytical.device_run import untilize as untilizing
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.to_layout import to_layout as change_layout


def _finished(session: Session, out: Held) -> Usage:
    """The run's usage; a view when the operand itself comes back."""
    return session.usage(out, view=not session.ran and out.buffer is session.inputs[0].buffer)


def _requested(case: Case, name: str) -> MemoryConfig:
    need(case.output is not None, f"{name} needs a memory config")
    assert case.output is not None
    return case.output


def to_memory_config(case: Case) -> Usage:
    memory = _requested(case, "to_memory_config")
    session = Session(case)
    return _finished(session, transfer.to_memory_config(session, session.inputs[0], memory, case.query.output_dtype))


def interleaved_to_sharded(case: Case) -> Usage:
    memory = _requested(case, "interleaved_to_sharded")
    session = Session(case)
    return _finished(
        session, transfer.interleaved_to_sharded(session, session.inputs[0], memory, case.query.output_dtype)
    )


def sharded_to_interleaved(case: Case) -> Usage:
    memory = _requested(case, "sharded_to_interleaved")
    session = Session(case)
    return _finished(session, transfer.sharded_to_interleaved(session, session.inputs[0], memory))


def reshard(case: Case) -> Usage:
    memory = _requested(case, "reshard")
    need(memory.is_sharded, "output must be sharded")
    need(case.x.layout.is_sharded, "input must be sharded")
    session = Session(case)
    return _finished(session, transfer.reshard(session, session.inputs[0], memory))


def to_layout(case: Case) -> Usage:
    session = Session(case)
    page = PageLayout(str(case.attrs["layout"]))
    return _finished(session, change_layout(session, session.inputs[0], page, case.output, case.query.output_dtype))


def tilize(case: Case) -> Usage:
    session = Session(case)
    return _finished(session, tilizing.tilize(session, session.inputs[0], case.output, case.query.output_dtype))


def tilize_with_zero_padding(case: Case) -> Usage:
    session = Session(case)
    return _finished(
        session, tilizing.tilize_with_padding(session, session.inputs[0], case.output, case.query.output_dtype)
    )


def untilize(case: Case) -> Usage:
    session = Session(case)
    return _finished(session, untilizing.untilize(session, session.inputs[0], case.output))
