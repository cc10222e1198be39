"""A program executed with values in a child of its own, on a simulator or a board; on a mock device, without any."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttmetal import location
from optimizer.opmodel.ttmetal.answers import input_record
from optimizer.opmodel.ttmetal.child import Child, ChildDiedError, ChildKey, Message, OverdueError
from optimizer.opmodel.ttmetal.pool import START_SECONDS
from optimizer.opmodel.ttnn_calls import asked_inputs, call_text

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

STEP_SECONDS = {"mock": 60, "sim": 900, "real": 300}
"""How long one step may take: a simulator compiles the step's kernels first."""
NOTHING_SAID = "it says nothing more"
_FAULTS = ("UndefinedBehavior", "UnsupportedFunctionality", "UnimplementedFunctionality", "ERROR", "Assert", "what()")
"""Words that mark the line in which a simulator or tt-metal says why it ends."""


class ExecutionSession:
    """Statements run in order; arrays go in and come out through files in a folder of its own.

    What the device refuses, and a child that dies or hangs, ends in ExecutionError with the reason; the session is then
    over unless `alive`.
    """

    def __init__(self, child: Child, folder: Path, step_seconds: float) -> None:
        self._child = child
        self._folder = folder
        self._step_seconds = step_seconds
        self._files = 0
        self.alive = True

    def load(self, source: str) -> None:
        """Execute the module's text once."""
        answer = self._ask({"kind": "begin", "source": source}, "the program")
        if not answer["valid"]:
            raise ExecutionError(f"the program does not load: {answer['error']}")

    def unload(self) -> None:
        """Forget the module and free what it holds; another may be loaded."""
        self._ask({"kind": "end"}, "the program's end")

    def run(self, code: str, what: str | None = None) -> None:
        """Execute statements. ExecutionError names `what` (the code itself by default)."""
        what = what or code
        answer = self._ask({"kind": "step", "code": code, "results": [], "measure": False}, what)
        if not answer["valid"]:
            raise ExecutionError(f"{what}: the device refuses it: {answer['error']}")

    def feed(self, name: str, arrays: Arrays) -> None:
        """Bind a name of the program to these arrays by name."""
        path = self._file()
        np.savez(path, **dict(arrays))
        self._ask({"kind": "feed", "name": name, "path": str(path)}, name)
        path.unlink()

    def fetch(self, names: Sequence[str]) -> dict[str, Array]:
        """Values of tensors: by `NAME`, or by `NAME.0`, `NAME.1`, ... of a list. Integers stay, all else is f32."""
        path = self._file()
        self._ask({"kind": "fetch", "names": list(names), "path": str(path)}, ", ".join(names))
        with np.load(path, allow_pickle=False) as found:
            values = {name: found[name] for name in found.files}
        path.unlink()
        return values

    def evaluate(
        self, query: OpQuery, operands: Sequence[Array], paddings: Sequence[Sequence[float]] = ()
    ) -> tuple[list[Array], list[Array]]:
        """One op on these operands: what the device holds of them, and the results. Needs no program.

        `paddings`: per operand the numbers, by turns, that its tiles hold beyond its elements; zeros if none are given.
        """
        inputs = asked_inputs(query)
        given, made = self._file(), self._file()
        np.savez(given, **{f"x{k}": array for k, array in enumerate(operands)})
        call = call_text(query, [f"x{k}" for k in range(len(inputs))])
        records = [input_record(spec) for spec in inputs]
        for record, padding in zip(records, paddings, strict=False):
            record["padding"] = list(padding)
        message = {"kind": "evaluate", "inputs": records, "call": call, "path": str(given), "into": str(made)}
        answer = self._ask(message, query.op)
        given.unlink()
        if not answer["valid"]:
            raise ExecutionError(f"{query.op}: the device refuses it: {answer['error']}")
        with np.load(made, allow_pickle=False) as found:
            held = [found[f"x{k}"] for k in range(len(inputs))]
            results = [found[f"y{k}"] for k in range(len(answer["outputs"]))]
        made.unlink()
        return held, results

    def _file(self) -> Path:
        self._files += 1
        return self._folder / f"{self._files}.npz"

    def _ask(self, message: Message, what: str) -> Message:
        try:
            answer = self._child.exchange({**message, "id": 0, "seconds": self._step_seconds}, self._step_seconds)
        except OverdueError:
            self._end()
            raise ExecutionError(f"{what}: the device did not answer within {self._step_seconds:g} s") from None
        except ChildDiedError as death:
            self._end()
            raise ExecutionError(f"{what}: the device's process ended ({death.reason}): {last_words(death)}") from None
        if "bad_request" in answer:
            raise ExecutionError(f"the program's text is wrong: {answer['bad_request']}")
        return answer

    def _end(self) -> None:
        self.alive = False
        self._child.kill()


def last_words(death: ChildDiedError) -> str:
    """The line in which a dead child says why, else its last one."""
    lines = [line.strip() for line in death.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line for word in _FAULTS)]
    return (telling or lines or [NOTHING_SAID])[-1][:400]


@contextmanager
def open_execution(
    device: DeviceSpec,
    l1_small_bytes: int,
    source: str,
    step_seconds: float | None = None,
    queues: int = 1,
    trace_region_bytes: int = 0,
) -> Iterator[ExecutionSession]:
    """A session on a device of this kind (`mock`, `sim`, `real`). ExecutionError when it does not open as the board."""
    place = location.find(source)
    board = device.arch if source == "sim" else device.name
    key = ChildKey(place, board, l1_small_bytes, queues, trace_region_bytes)
    with tempfile.TemporaryDirectory(prefix="ttopt-values-") as folder:
        child = Child(key)
        try:
            _check(device, l1_small_bytes, source, _greeting(child, place.describe()))
            yield ExecutionSession(child, Path(folder), step_seconds or STEP_SECONDS[source])
        finally:
            child.kill()


def _greeting(child: Child, what: str) -> Message:
    try:
        hello = child.exchange(None, START_SECONDS)
    except ChildDiedError as death:
        raise ExecutionError(f"{what} does not open ({death.reason}): {last_words(death)}") from None
    except OverdueError:
        raise ExecutionError(f"{what} does not open within {START_SECONDS} s") from None
    if "failed" in hello:
        raise ExecutionError(f"{what} does not open: {hello['failed']}")
    return hello


def _check(device: DeviceSpec, l1_small_bytes: int, source: str, hello: Message) -> None:
    """The device must be the plan's board; without fast dispatch a simulator has more cores than it."""
    expected = {
        "arch": device.arch,
        "l1_bank_bytes": device.l1_bank_bytes(l1_small_bytes),
        "cb_base_bytes": device.cb_base_bytes,
        "worker_l1_bytes": device.worker_l1_bytes,
    }
    wrong = [f"{name} {hello[name]} instead of {value}" for name, value in expected.items() if hello[name] != value]
    grid, wanted = hello["grid_yx"], list(device.grid_yx)
    if grid != wanted and (source != "sim" or any(g < w for g, w in zip(grid, wanted, strict=True))):
        wrong.append(f"grid_yx {grid} instead of {wanted}")
    if wrong:
        raise ExecutionError(f"the {source} device is not the board '{device.name}': {', '.join(wrong)}")
