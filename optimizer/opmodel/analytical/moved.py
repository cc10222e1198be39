"""Data movement by simulated runs: each TTNN call as the programs it consists of."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Case, Usage
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor


def finished(session: Session, *outputs: Held) -> Usage:
    """The run's usage; a view when the one result is operand 0's buffer."""
    x = session.inputs[0]
    same = len(outputs) == 1 and not session.ran
    return session.usage(*outputs, view=same and (outputs[0].buffer is x.buffer))


def slice_(case: Case) -> Usage:
    session = Session(case)
    shape = case.x.shape
    rank = len(shape)
    begins, ends = (tuple(int(v) for v in case.attrs[k]) for k in ("begins", "ends"))
    steps = tuple(int(v) for v in case.attrs.get("steps") or (1,) * rank)
    begins = tuple(b + s if b < 0 else b for b, s in zip(begins, shape, strict=True))
    ends = tuple(e + s if e < 0 else e for e, s in zip(ends, shape, strict=True))
    return finished(session, slice_tensor(session, session.inputs[0], Range(begins, ends, steps), case.output))
