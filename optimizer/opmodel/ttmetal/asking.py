"""What is asked of a board: single calls on an empty L1, and programs statement by statement.

Standard library and ttnn only: the child process loads this file by its path, after `traces`, `evaluation` and `board`.
"""

from __future__ import annotations

import gc
import sys
from collections import OrderedDict
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.opmodel.ttmetal import evaluation, traces
    from optimizer.opmodel.ttmetal.board import Board
else:
    evaluation, traces = sys.modules["ttopt_evaluation"], sys.modules["ttopt_traces"]

Message = dict[str, Any]
COMPILED_CALLS = 20_000


class BadRequestError(Exception):
    """The request itself is wrong: our mistake, not an answer about an op."""


def own_mistake(error: BaseException) -> bool:
    """Whether an exception comes from our text itself: a name that does not exist, in the outermost frame."""
    inner = error.__traceback__
    while inner is not None and inner.tb_next is not None:
        inner = inner.tb_next
    text = inner is not None and inner.tb_frame.f_code.co_filename == "<call>"
    return isinstance(error, NameError) or (isinstance(error, AttributeError) and text)


# -- single ops ----------------------------------------------------------------------------------------------
class Queries:
    """Answers `query`: every question starts and ends with an empty L1."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self._compiled: OrderedDict[str, CodeType] = OrderedDict()

    def answer(self, request: Message) -> Message:
        board, code, mode = self.board, self._code(request["call"]), request.get("mode", "normal")
        if mode not in ("normal", "no_dispatch"):
            raise BadRequestError(f"unknown mode {mode!r}")
        if mode == "no_dispatch":
            answer, outputs, nodes = self._run(board.no_dispatch, code, request)
            return {**answer, **self._figures(outputs, nodes)} if answer["valid"] else answer
        answer, outputs, _ = self._run(None, code, request)
        if not answer["valid"]:
            if answer["stage"] == "op" and answer["kind"] != "validation":
                # for lack of room: where more room would only let tt-metal die, dying is the answer
                self._run(board.no_dispatch, code, request)
            return answer
        measured, _, nodes = self._run(board.no_dispatch, code, request)
        if not measured["valid"]:
            _, _, nodes = self._run(board.normal, code, request)
        return {**answer, **self._figures(outputs, nodes)}

    def _figures(self, outputs: list[Message], nodes: traces.Nodes) -> Message:
        return {"outputs": outputs, **self.board.usage(nodes), "programs": traces.programs_of(nodes)}

    def _code(self, text: str) -> CodeType:
        found = self._compiled.get(text)
        if found is None:
            try:
                found = compile(text, "<call>", "eval")
            except SyntaxError as error:
                raise BadRequestError(f"not an expression: {text}: {error}") from error
            self._compiled[text] = found
            if len(self._compiled) > COMPILED_CALLS:
                self._compiled.popitem(last=False)
        return found

    def _run(self, mode: Any, code: CodeType, request: Message) -> tuple[Message, list[Message], traces.Nodes]:
        """One run with inputs of its own, as ops may free or overwrite them: (answer, outputs, nodes).

        Without a mode nothing is captured: a NORMAL run, in less time.
        """
        board = self.board
        names: dict[str, Any] = {"ttnn": board.ttnn, "device": board.device}
        try:
            try:
                for index, record in enumerate(request["inputs"]):
                    names[f"x{index}"] = board.tensor(record)
            except Exception as error:  # noqa: BLE001 - a tensor that cannot exist is an answer
                return {"valid": False, "stage": "input", **traces.explain(error)}, [], []
            result, nodes, problem = board.captured(mode, lambda: eval(code, names))
            if problem is not None:
                if own_mistake(problem):
                    raise BadRequestError(f"{request['call']}: {problem!r}") from problem
                return {"valid": False, "stage": "op", **traces.explain(problem)}, [], nodes
            outputs = [board.record(tensor) for tensor in board.tensors_in(result)]
            return {"valid": True}, outputs, nodes
        finally:
            result = None
            names.clear()
            board.free_everything()


# -- whole programs ------------------------------------------------------------------------------------------
class Session:
    """A program run statement by statement, everything it holds staying in L1 as on a device.

    `step` runs its statements twice: first under NO_DISPATCH on stand-ins of the tensors they name (which take no
    memory), as only that capture reports dataflow buffers, then for real. So a step should hold nothing but
    assignments of calls, and deallocations. Where `measure` is false they run once and nothing is captured.
    """

    def __init__(self, board: Board, source: str) -> None:
        self.board = board
        self.names: dict[str, Any] = {"__name__": "ttopt_program", "ttnn": board.ttnn, "device": board.device}
        exec(compile(source, "<program>", "exec"), self.names)

    def step(self, code: str, results: list[str], measure: bool) -> Message:
        board = self.board
        try:
            compiled = compile(code, "<call>", "exec")
        except SyntaxError as error:
            raise BadRequestError(f"not a statement: {code}: {error}") from error
        measured = self._measured(compiled) if measure else None
        before, kept = board.l1_in_use(), dict(self.names)
        mode = board.normal if measure else None
        _, nodes, problem = board.captured(mode, lambda: exec(compiled, self.names))
        if problem is not None:  # a refused step changes nothing; what C++ has leaked shows in l1_after
            self.names.clear()
            self.names.update(kept)
            problem.__traceback__ = None if not own_mistake(problem) else problem.__traceback__
        elif not measure:
            board.settle()  # a device that ends does so in the step that made it
        answer = {"valid": problem is None, "l1_before": before, "l1_after": board.l1_in_use()}
        if measure:
            usage = {**board.usage(nodes), "programs": traces.programs_of(nodes), "measured": "normal"}
            answer.update(measured or usage)
        if problem is not None:
            if own_mistake(problem):
                raise BadRequestError(f"{code}: {problem!r}") from problem
            return {**answer, "stage": "op", **traces.explain(problem)}
        missing = [name for name in results if name not in self.names]
        if missing:
            raise BadRequestError(f"{code}: gives no {', '.join(missing)}")
        return {**answer, "outputs": {name: self._outputs(self.names[name]) for name in results}}

    def _outputs(self, value: Any) -> list[Message]:
        found = []
        for tensor in self.board.tensors_in(value):
            record = self.board.record(tensor)
            if record.get("buffer") == "l1":
                record["address"] = tensor.buffer_address()
            found.append(record)
        return found

    def _measured(self, compiled: CodeType) -> Message | None:
        """Byte figures of the statements on stand-ins, or None when NO_DISPATCH cannot run them."""
        board = self.board
        names = dict(self.names)
        asked = [name for name in compiled.co_names if name in names]
        for name in asked:
            made, _, problem = board.captured(board.no_dispatch, partial(self._stand_in, names[name]))
            if problem is not None:
                return None
            names[name] = made
        _, nodes, problem = board.captured(board.no_dispatch, lambda: exec(compiled, names))
        if problem is not None:
            return None
        return {**board.usage(nodes), "programs": traces.programs_of(nodes), "measured": "no_dispatch"}

    def _stand_in(self, value: Any) -> Any:
        """A tensor like this one that takes no memory; other things as they are."""
        board, ttnn = self.board, self.board.ttnn
        if isinstance(value, list | tuple) and board.tensors_in(value):
            return type(value)(self._stand_in(part) for part in value)
        if not board.is_tensor(value) or not board.on_device(value) or not value.is_allocated():
            return value
        return ttnn.allocate_tensor_on_device(value.spec, board.device)

    def feed(self, name: str, path: str) -> Message:
        """Bind `name` to the arrays of an `.npz` file, a mapping from names to arrays."""
        self.names[name] = evaluation.read(path)
        return {"valid": True}

    def fetch(self, names: list[str], path: str) -> Message:
        """Write the values of tensors to an `.npz` file: `NAME`, or `NAME.0`, `NAME.1`, ... of a list."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise BadRequestError(f"the program gives no {', '.join(missing)}")
        found: dict[str, Any] = {}
        for name in names:
            value = self.names[name]
            if self.board.is_tensor(value):
                found[name] = evaluation.values_of(self.board, value)
            else:
                tensors = enumerate(self.board.tensors_in(value))
                found |= {f"{name}.{k}": evaluation.values_of(self.board, tensor) for k, tensor in tensors}
        evaluation.write(path, found)
        return {"valid": True, "names": list(found)}

    def end(self) -> None:
        self.names.clear()
        gc.collect()
        self.board.free_everything()
