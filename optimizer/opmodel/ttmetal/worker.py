"""The child process: opens one board (`board`) with `ttnn` and answers what is asked of it (`asking`).

    python worker.py IN_FD OUT_FD BOARD L1_SMALL_BYTES mock|sim|real QUEUES TRACE_REGION_BYTES

Standard library and ttnn only; it is started by its path, possibly under another interpreter, so nothing of
`optimizer` is imported. Messages are 4 bytes of length (big endian) and that many bytes of JSON, on two pipes
of their own: tt-metal prints to standard output and standard error as it likes.

Requests, each answered by one message with the same `id`:

* `query`: does the call run on an otherwise empty L1? `inputs` are tensor records (the row schema in
  docs/formats.md), `call` is one Python expression over `ttnn`, `device` and `x0`, `x1`, ... The verdict is that of
  a normal run (validation, program build and the real allocator), the byte figures of an accepted call those of
  a NO_DISPATCH graph capture, as only that one reports dataflow buffers; where NO_DISPATCH cannot run the call
  (pools of L1 tensors: its buffers all have address 0) they are a NORMAL capture's. `mode: no_dispatch` asks for
  that capture alone.
* `begin`, `step`, `end`: a program statement by statement in one L1, see `asking.Session`. `feed` binds the arrays of
  an `.npz` file to a name of the program, `fetch` writes tensors of it to one.
* `evaluate`: one call on operands with values, see `evaluation`.

BOARD is the architecture when the device is `sim`.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import os
import shutil
import signal
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any


def beside(name: str) -> ModuleType:
    """The module of this name beside this file, loaded by its path."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}.py")
    loader = importlib.machinery.SourceFileLoader(f"ttopt_{name}", path)
    module = ModuleType(loader.name)
    module.__file__ = path
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from optimizer.opmodel.ttmetal import asking, environment, evaluation, pipes, simulator, traces
    from optimizer.opmodel.ttmetal import board as boards
else:
    environment, simulator, traces = beside("environment"), beside("simulator"), beside("traces")
    evaluation, pipes = beside("evaluation"), beside("pipes")
    boards, asking = beside("board"), beside("asking")

Message = dict[str, Any]
GRACE_SECONDS = 30
"""How much longer than the parent's patience this process may hang once the parent is gone."""


class Service:
    """Requests in, answers out, one at a time and in order."""

    def __init__(self, board: boards.Board) -> None:
        self.board = board
        self.queries = asking.Queries(board)
        self.session: asking.Session | None = None

    def answer(self, request: Message) -> Message:
        kind = request.get("kind")
        if kind == "query":
            if self.session is not None:
                raise asking.BadRequestError("a program session is open; end it first")
            return self.queries.answer(request)
        if kind == "hello":
            return self.board.hello()
        if kind == "evaluate":
            return self._evaluate(request)
        if kind == "begin":
            return self._begin(request["source"])
        if self.session is None:
            raise asking.BadRequestError(f"no program session is open for {kind!r}")
        if kind == "step":
            return self.session.step(request["code"], request.get("results", []), request.get("measure", True))
        if kind == "feed":
            return self.session.feed(request["name"], request["path"])
        if kind == "fetch":
            return self.session.fetch(request["names"], request["path"])
        if kind == "end":
            self.session.end()
            self.session = None
            return {"l1_after": self.board.l1_in_use()}
        raise asking.BadRequestError(f"unknown request {kind!r}")

    def _evaluate(self, request: Message) -> Message:
        try:
            return evaluation.evaluate(self.board, request)
        except Exception as error:  # noqa: BLE001 - whatever tt-metal throws is the answer
            return {"valid": False, **traces.explain(error)}

    def _begin(self, source: str) -> Message:
        if self.session is not None:
            raise asking.BadRequestError("a program session is open; end it first")
        try:
            self.session = asking.Session(self.board, source)
        except Exception as error:  # noqa: BLE001 - a program that cannot be loaded is an answer
            self.board.free_everything()
            return {"valid": False, "error": f"{type(error).__name__}: {traces.explain(error)['error']}"}
        return {"valid": True, "l1_after": self.board.l1_in_use()}


def open_board(name: str, l1_small: int, source: str, queues: int, trace_region: int) -> boards.Board:
    """Set the surroundings up, import ttnn and open the device."""
    fast = queues > 1 or trace_region > 0
    if source == "mock":
        root = environment.prepare_mock(name, importlib.metadata.version("ttnn"))
        os.chdir(root)
    elif source == "sim":
        os.chdir(simulator.prepare(name, importlib.metadata.version("ttnn"), fast_dispatch=fast))
    import ttnn

    opening = {"num_command_queues": queues, "trace_region_size": trace_region} if fast else {}
    device = ttnn.open_device(device_id=0, l1_small_size=l1_small, **opening)
    device.disable_and_clear_program_cache()  # a cached program reports no buffers
    return boards.Board(ttnn, device, l1_small, source)


def serve(pipe: pipes.Pipe, service: Service) -> None:
    while True:
        request = pipe.receive()
        if request is None:
            return
        # should the parent die while tt-metal hangs, nobody else would end this process
        signal.alarm(int(request.get("seconds", 0)) + GRACE_SECONDS if request.get("seconds") else 0)
        start = time.perf_counter()
        try:
            answer = service.answer(request)
        except asking.BadRequestError as error:
            answer = {"bad_request": str(error)}
        signal.alarm(0)
        pipe.send({"id": request.get("id"), "ms": round((time.perf_counter() - start) * 1e3, 3), **answer})


def main() -> None:
    source_fd, target_fd, board, l1_small, source, queues, trace_region = sys.argv[1:]
    if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which closes the pipe
    pipe = pipes.Pipe(int(source_fd), int(target_fd))
    try:
        opened = open_board(board, int(l1_small), source, int(queues), int(trace_region))
    except environment.EnvironmentProblem as problem:
        pipe.send({"id": "start", "failed": str(problem)})
        os._exit(1)
    except Exception as error:  # noqa: BLE001 - reported to the parent as the reason
        pipe.send({"id": "start", "failed": f"{type(error).__name__}: {traces.explain(error)['error']}"})
        os._exit(1)
    pipe.send({"id": "start", **opened.hello()})
    serve(pipe, Service(opened))
    if source == "real":
        opened.ttnn.close_device(opened.device)
    else:
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)  # made for this process by its parent
    sys.stdout.flush()
    os._exit(0)  # a mock device has nothing to close, and tt-metal's own tear-down takes its time


if __name__ == "__main__":
    main()
