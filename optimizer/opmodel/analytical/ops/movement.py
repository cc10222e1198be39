"""Data movement by simulated runs: each TTNN call as the programs it consists of."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Case, Usage
from optimizer.opmodel.analytical.device_run.concatenating import concat as concat_tensors
from optimizer.opmodel.analytical.device_run.interleaving import repeat_interleave as interleave_tensor
from optimizer.opmodel.analytical.device_run.padding import pad as pad_tensor
from optimizer.opmodel.analytical.device_run.repeating import repeat as repeat_tensor
from optimizer.opmodel.analytical.device_run.reshaping import reshape as reshape_tensor
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.splitting import split as split_tensor
from optimizer.opmodel.analytical.device_run.transposing import permute as permute_tensor
from optimizer.opmodel.analytical.device_run.transposing import transpose as transpose_tensor
from optimizer.opmodel.analytical.ops.generic import result_shapes


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


def reshape(case: Case) -> Usage:
    session = Session(case)
    shape = tuple(int(v) for v in case.attrs["shape"])
    return finished(session, reshape_tensor(session, session.inputs[0], shape, case.output))


def unsqueeze(case: Case) -> Usage:
    session = Session(case)
    x = session.inputs[0]
    shape = list(x.shape)
    shape.insert(int(case.attrs["dim"]) % (len(shape) + 1), 1)
    return finished(session, reshape_tensor(session, x, tuple(shape)))


def permute(case: Case) -> Usage:
    session = Session(case)
    rank = len(case.x.shape)
    dims = tuple(int(d) % rank for d in case.attrs["dims"])
    return finished(session, permute_tensor(session, session.inputs[0], dims, case.output))


def transpose(case: Case) -> Usage:
    session = Session(case)
    rank = len(case.x.shape)
    a, b = (int(case.attrs[k]) % rank for k in ("dim0", "dim1"))
    return finished(session, transpose_tensor(session, session.inputs[0], a, b, case.output))


def pad(case: Case) -> Usage:
    session = Session(case)
    padding = tuple((int(a), int(b)) for a, b in case.attrs["padding"])
    return finished(session, pad_tensor(session, session.inputs[0], padding, case.output))


def concat(case: Case) -> Usage:
    session = Session(case)
    dim = int(case.attrs["dim"]) % len(case.x.shape)
    result_shapes(case)
    return finished(session, concat_tensors(session, tuple(session.inputs), dim, case.output))


def split(case: Case) -> Usage:
    session = Session(case)
    sizes = tuple(int(s) for s in case.attrs["sizes"])
    dim = int(case.attrs["dim"]) % len(case.x.shape)
    result_shapes(case)
    return finished(session, *split_tensor(session, session.inputs[0], sizes, dim, case.output))


def repeat(case: Case) -> Usage:
    session = Session(case)
    result_shapes(case)
    reps = tuple(int(r) for r in case.attrs["repeats"])
    return finished(session, repeat_tensor(session, session.inputs[0], reps, case.output))


def repeat_interleave(case: Case) -> Usage:
    session = Session(case)
    result_shapes(case)
    times, dim = int(case.attrs["repeats"]), int(case.attrs["dim"]) % len(case.x.shape)
    return finished(session, interleave_tensor(session, session.inputs[0], times, dim, case.output))
