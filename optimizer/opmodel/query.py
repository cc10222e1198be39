"""Streams of questions to a backend: rows of a file in, answers out (`ttopt opmodel query` and `time`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError, TtoptError
from optimizer.ir.sizes import is_whole
from optimizer.opmodel import registry
from optimizer.opmodel.base import BatchOpModel, OpConstraints, OpModel, OpQuery
from optimizer.opmodel.rows import answer_to_row, query_from_row
from optimizer.process.json_document import LARGEST_INTEGER

DEFAULT_BOARD = "n150"
BATCH_ROWS = 512
"""Rows read ahead for backends that answer batches."""
L1_SMALL_BYTES = 32768
"""What rows that do not say assume: the tables were recorded so."""


Backend = Callable[[str, int], OpModel]
"""Of (board, l1_small)."""


def query_rows(
    rows: Iterable[Mapping[str, Any]], opmodel: str = "analytical", jobs: int | None = None
) -> Iterator[dict[str, Any]]:
    """The contract's answer per row: `{id, valid, kind, error, out_mem, peak_cb, peak_l1, peak_total}`.

    What a row records of tt-metal's answer is not read. A row that cannot be read raises FormatError naming
    its number and id, after the answers to the rows before it. Backends that answer batches are asked so, by
    `jobs` processes at once (None: the backend's default).
    """
    backend = cache(lambda board, l1_small: registry.create(opmodel, DeviceSpec.preset(board), l1_small))
    for batch, problem in _batches(rows, backend):
        yield from _answered(batch, jobs)
        if problem is not None:
            raise problem


_Asked = tuple[Any, OpModel, OpQuery]
"""Row id, backend, question."""


def _batches(rows: Iterable[Mapping[str, Any]], backend: Backend) -> Iterator[tuple[list[_Asked], TtoptError | None]]:
    """Rows as questions, some at a time; with what ended the reading, if it was an error."""
    batch: list[_Asked] = []
    try:
        for number, row in enumerate(rows, start=1):
            place = _place(row, number)
            model = _of_row(backend, row, place)
            batch.append((row.get("id", number), model, query_from_row(row, place)))
            if len(batch) >= (BATCH_ROWS if isinstance(model, BatchOpModel) else 1):
                yield batch, None
                batch = []
    except TtoptError as error:
        yield batch, error
        return
    yield batch, None


def _answered(batch: list[_Asked], jobs: int | None) -> Iterator[dict[str, Any]]:
    """Answers in the order of the questions, which may go to several backends."""
    answers: list[OpConstraints | None] = [None] * len(batch)
    for model in {id(model): model for _, model, _ in batch}.values():
        mine = [index for index, (_, other, _) in enumerate(batch) if other is model]
        queries = [batch[index][2] for index in mine]
        if isinstance(model, BatchOpModel):
            found = model.constraints_many(queries, jobs)
        else:
            found = [model.constraints(query) for query in queries]
        for index, answer in zip(mine, found, strict=True):
            answers[index] = answer
    for (row_id, _, _), given in zip(batch, answers, strict=True):
        assert given is not None
        yield answer_to_row(row_id, given)


def _place(row: Mapping[str, Any], number: int) -> str:
    return f"row {number} (id {row['id']})" if "id" in row else f"row {number}"


def _of_row(backend: Backend, row: Mapping[str, Any], place: str) -> OpModel:
    board, small = row.get("board", DEFAULT_BOARD), row.get("l1_small", L1_SMALL_BYTES)
    if not isinstance(board, str):
        raise FormatError(f"'board' must be a name, got {board!r}", node=place)
    if not is_whole(small, 0, LARGEST_INTEGER):
        raise FormatError(f"'l1_small' must be a count of bytes, got {small!r}", node=place)
    return backend(board, small)


def time_rows(rows: Iterable[Mapping[str, str]], opmodel: str = "analytical") -> Iterator[dict[str, Any]]:
    """`{id, predicted_ns}` per row of the measured-times schema; measured columns are not read."""
    if opmodel != "analytical":
        raise OptionError(f"backend '{opmodel}' predicts no times for rows of device ops; use 'analytical'")
    from optimizer.opmodel.analytical.calibration import row_work
    from optimizer.opmodel.analytical.timing import Timing

    timing = cache(Timing)
    for number, row in enumerate(rows, start=1):
        place = _place(row, number)
        try:
            predicted, _ = timing(*_clock(row)).time(row_work(row))
        except TtoptError as error:
            raise FormatError(error.message, node=place) from error
        yield {"id": row.get("id", str(number)), "predicted_ns": predicted}


def _clock(row: Mapping[str, str]) -> tuple[str, int]:
    """(architecture, clock) of a row."""
    from optimizer.opmodel.analytical.calibration.columns import number

    arch = row.get("arch") or ""
    boards = {"wormhole_b0": "n150", "blackhole": "p150"}
    if arch not in boards:
        raise FormatError(f"column 'arch' must be one of {', '.join(boards)}, got {arch!r}")
    clock = number(row, "clock_mhz", DeviceSpec.preset(boards[arch]).clock_mhz)
    if clock <= 0:
        raise FormatError(f"column 'clock_mhz' must be positive, got {clock}")
    return (arch, clock)
