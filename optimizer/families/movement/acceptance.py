"""Data movement, layout and memory ops by simulated runs: each TTNN call as the programs it consists of."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.families.elementwise.unary import clone, fill_padding
from optimizer.families.movement import indexing
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import Case, Family, Usage, need
from optimizer.opmodel.analytical.costing import by_rows, moves
from optimizer.opmodel.analytical.costing.pieces import Builder
from optimizer.opmodel.analytical.device_run import tilize as tilizing
from optimizer.opmodel.analytical.device_run import transfer
from optimizer.opmodel.analytical.device_run import untilize as untilizing
from optimizer.opmodel.analytical.device_run.concatenating import concat
from optimizer.opmodel.analytical.device_run.interleaving import repeat_interleave
from optimizer.opmodel.analytical.device_run.padding import pad, to_layout
from optimizer.opmodel.analytical.device_run.repeating import repeat
from optimizer.opmodel.analytical.device_run.reshaping import reshape
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.slicing import Range, slice_tensor
from optimizer.opmodel.analytical.device_run.splitting import split
from optimizer.opmodel.analytical.device_run.transposing import permute, transpose
from optimizer.opmodel.analytical.generic import from_device, result_shapes, to_device


def _run(moved: Callable[[Session, Case, Held], Held | tuple[Held, ...]]) -> Family:
    """The usage of a run on operand 0; a view when that itself, or another reading of it, is the one result."""

    def family(case: Case) -> Usage:
        session = Session(case)
        x = session.inputs[0]
        found = moved(session, case, x)
        outputs = found if isinstance(found, tuple) else (found,)
        return session.usage(*outputs, view=not session.ran and len(outputs) == 1 and outputs[0].buffer is x.buffer)

    return family


def _dim(case: Case, name: str = "dim") -> int:
    return int(case.attrs[name]) % len(case.x.shape)


def _numbers(case: Case, name: str) -> tuple[int, ...]:
    return tuple(int(v) for v in case.attrs[name])


def _requested(case: Case) -> MemoryConfig:
    need(case.output is not None, f"{case.query.op.removeprefix('ttnn.')} needs a memory config")
    assert case.output is not None
    return case.output


def _fitting(case: Case, dim: int) -> int:
    """The dim; refused when the vocabulary has no result for the operands."""
    result_shapes(case)
    return dim


def _slice(session: Session, case: Case, x: Held) -> Held:
    shape = case.x.shape
    steps = tuple(int(v) for v in case.attrs.get("steps") or (1,) * len(shape))
    begins, ends = (
        tuple(at + size if at < 0 else at for at, size in zip(_numbers(case, name), shape, strict=True))
        for name in ("begins", "ends")
    )
    return slice_tensor(session, x, Range(begins, ends, steps), case.output)


def _unsqueeze(session: Session, case: Case, x: Held) -> Held:
    shape = list(x.shape)
    shape.insert(int(case.attrs["dim"]) % (len(shape) + 1), 1)
    return reshape(session, x, tuple(shape))


def _repeat(session: Session, case: Case, x: Held) -> Held:
    result_shapes(case)
    return repeat(session, x, _numbers(case, "repeats"), case.output)


def _reshard(session: Session, case: Case, x: Held) -> Held:
    memory = _requested(case)
    need(memory.is_sharded, "output must be sharded")
    need(x.is_sharded, "input must be sharded")
    return transfer.reshard(session, x, memory)


def _to_layout(session: Session, case: Case, x: Held) -> Held:
    page = PageLayout(str(case.attrs["layout"]))
    return to_layout(session, x, page, case.output, case.query.output_dtype)


def _tilizing(tilize: Callable[[Session, Held, MemoryConfig | None, DType | None], Held]) -> Family:
    return _run(lambda s, c, x: tilize(s, x, c.output, c.query.output_dtype))


FAMILIES: dict[str, Family] = {
    "ttnn.slice": _run(_slice),
    "ttnn.reshape": _run(lambda s, c, x: reshape(s, x, _numbers(c, "shape"), c.output)),
    "ttnn.unsqueeze": _run(_unsqueeze),
    "ttnn.permute": _run(lambda s, c, x: permute(s, x, tuple(d % len(x.shape) for d in _numbers(c, "dims")), c.output)),
    "ttnn.transpose": _run(lambda s, c, x: transpose(s, x, _dim(c, "dim0"), _dim(c, "dim1"), c.output)),
    "ttnn.pad": _run(lambda s, c, x: pad(s, x, tuple((int(a), int(b)) for a, b in c.attrs["padding"]), c.output)),
    "ttnn.concat": _run(lambda s, c, _: concat(s, tuple(s.inputs), _fitting(c, _dim(c)), c.output)),
    "ttnn.split": _run(lambda s, c, x: split(s, x, _numbers(c, "sizes"), _fitting(c, _dim(c)), c.output)),
    "ttnn.repeat": _run(_repeat),
    "ttnn.repeat_interleave": _run(
        lambda s, c, x: repeat_interleave(s, x, int(c.attrs["repeats"]), _fitting(c, _dim(c)), c.output)
    ),
    "ttnn.to_memory_config": _run(lambda s, c, x: transfer.to_memory_config(s, x, _requested(c), c.query.output_dtype)),
    "ttnn.interleaved_to_sharded": _run(
        lambda s, c, x: transfer.interleaved_to_sharded(s, x, _requested(c), c.query.output_dtype)
    ),
    "ttnn.sharded_to_interleaved": _run(lambda s, c, x: transfer.sharded_to_interleaved(s, x, _requested(c))),
    "ttnn.reshard": _run(_reshard),
    "ttnn.to_layout": _run(_to_layout),
    "ttnn.tilize": _tilizing(tilizing.tilize),
    "ttnn.tilize_with_zero_padding": _tilizing(tilizing.tilize_with_padding),
    "ttnn.untilize": _run(lambda s, c, x: untilizing.untilize(s, x, c.output)),
    "ttnn.clone": clone,
    "ttnn.fill_implicit_tile_padding": fill_padding,
    "ttnn.embedding": indexing.embedding,
    "ttnn.gather": indexing.gather,
    "ttnn.scatter": indexing.scatter,
    "ttnn.scatter_add": indexing.scatter,
    "ttnn.from_device": from_device,
    "ttnn.to_device": to_device,
}
COSTS: dict[str, Builder] = {
    "ttnn.to_layout": moves.tilize,
    "ttnn.tilize": moves.tilize,
    "ttnn.tilize_with_zero_padding": moves.tilize,
    "ttnn.untilize": moves.tilize,
    "ttnn.slice": by_rows.rearranged,
    "ttnn.split": by_rows.rearranged,
    "ttnn.concat": by_rows.rearranged,
    "ttnn.from_device": moves.transfer,
    "ttnn.to_device": moves.transfer,
}
"""What builds the work of ops that are not run like the others of their cost class."""
