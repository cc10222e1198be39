"""The child process: opens one board with `ttnn` and answers questions about it.

    python worker.py IN_FD OUT_FD BOARD L1_SMALL_BYTES mock|sim|real

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
* `begin`, `step`, `end`: a program statement by statement in one L1, see `Session`. `feed` binds the arrays of an
  `.npz` file to a name of the program, `fetch` writes tensors of it to one.
* `evaluate`: one call on operands with values, see `evaluation`.

BOARD is the architecture when the device is `sim`.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.metadata
import os
import shutil
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import CodeType, ModuleType
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
    from optimizer.opmodel.ttmetal import environment, evaluation, pipes, simulator, traces
else:
    environment, simulator, traces = beside("environment"), beside("simulator"), beside("traces")
    evaluation, pipes = beside("evaluation"), beside("pipes")

Message = dict[str, Any]
COMPILED_CALLS = 20_000
GRACE_SECONDS = 30
"""How much longer than the parent's patience this process may hang once the parent is gone."""


class BadRequestError(Exception):
    """The request itself is wrong: our mistake, not an answer about an op."""


# -- the board -----------------------------------------------------------------------------------------------
class Board:
    """One open device and what is needed to talk about its tensors."""

    def __init__(self, ttnn: Any, device: Any, l1_small: int, source: str) -> None:
        self.ttnn = ttnn
        self.device = device
        self.l1_small = l1_small
        self.source = source
        names = {"bf16": "bfloat16", "f32": "float32", "bfp8_b": "bfloat8_b", "bfp4_b": "bfloat4_b"}
        names.update(u32="uint32", i32="int32", u16="uint16", u8="uint8")
        self.dtypes = {short: getattr(ttnn, name) for short, name in names.items() if hasattr(ttnn, name)}
        self.dtype_names = {str(value): name for name, value in self.dtypes.items()}
        self.layouts = {"tile": ttnn.TILE_LAYOUT, "rm": ttnn.ROW_MAJOR_LAYOUT}
        memory = ttnn.TensorMemoryLayout
        self.memory_layouts = {
            "interleaved": memory.INTERLEAVED,
            "height": memory.HEIGHT_SHARDED,
            "width": memory.WIDTH_SHARDED,
            "block": memory.BLOCK_SHARDED,
        }
        self.memory_names = {str(value): name for name, value in self.memory_layouts.items()}
        self.buffers = {"dram": ttnn.BufferType.DRAM, "l1": ttnn.BufferType.L1}
        orientation = ttnn.ShardOrientation
        self.orientations = {"row": orientation.ROW_MAJOR, "col": orientation.COL_MAJOR}
        self.normal = ttnn.graph.RunMode.NORMAL
        self.no_dispatch = ttnn.graph.RunMode.NO_DISPATCH

    def hello(self) -> Message:
        ttnn, info = self.ttnn, self.ttnn._ttnn.reports.get_device_info(self.device)
        dram = ttnn.get_memory_view(self.device, ttnn.BufferType.DRAM)
        grid = self.device.compute_with_storage_grid_size()
        return {
            "ttnn": importlib.metadata.version("ttnn"),
            "source": self.source,
            "arch": str(self.device.arch()).rpartition(".")[2].lower(),
            "grid_yx": [grid.y, grid.x],
            "l1_small_bytes": self.l1_small,
            "l1_bank_bytes": self.ttnn.get_memory_view(self.device, ttnn.BufferType.L1).total_bytes_per_bank,
            "cb_base_bytes": info.address_at_first_l1_cb_buffer,
            "worker_l1_bytes": info.worker_l1_size,
            "dram_banks": dram.num_banks,
            "dram_bank_bytes": dram.total_bytes_per_bank,
            "pid": os.getpid(),
        }

    # -- tensors ---------------------------------------------------------------------------------------------
    def memory_config(self, record: Message) -> Any:
        ttnn = self.ttnn
        layout, buffer = self.memory_layouts[record["memory_layout"]], self.buffers[record["buffer"]]
        if not record.get("shard_shape"):
            return ttnn.MemoryConfig(layout, buffer)
        ranges = {ttnn.CoreRange(ttnn.CoreCoord(a, b), ttnn.CoreCoord(c, d)) for a, b, c, d in record["grid"]}
        orientation = self.orientations[record.get("orientation") or "row"]
        spec = ttnn.ShardSpec(ttnn.CoreRangeSet(ranges), record["shard_shape"], orientation)
        return ttnn.MemoryConfig(layout, buffer, spec)

    def tensor(self, record: Message) -> Any:
        """An input as a row describes it; on the device without values."""
        ttnn = self.ttnn
        dtype, layout = self.dtypes[record["dtype"]], self.layouts[record["layout"]]
        if record.get("host"):
            return ttnn.zeros(tuple(record["shape"]), dtype=dtype, layout=layout)
        memory = self.memory_config(record)
        return ttnn.allocate_tensor_on_device(ttnn.Shape(record["shape"]), dtype, layout, self.device, memory)

    def is_tensor(self, value: Any) -> bool:
        return bool(isinstance(value, self.ttnn.Tensor))

    def on_device(self, tensor: Any) -> bool:
        return bool(tensor.storage_type() == self.ttnn.StorageType.DEVICE)

    def record(self, tensor: Any) -> Message:
        """A tensor as rows describe it: shape, padded shape, dtype, page layout and place."""
        found: Message = {
            "shape": list(tensor.shape),
            "padded": list(tensor.padded_shape),
            "dtype": self.dtype_names[str(tensor.dtype)],
            "layout": "tile" if tensor.layout == self.ttnn.TILE_LAYOUT else "rm",
        }
        if not self.on_device(tensor):
            return {**found, "host": True}
        memory = tensor.memory_config()
        found["memory_layout"] = self.memory_names[str(memory.memory_layout)]
        found["buffer"] = "dram" if memory.buffer_type == self.ttnn.BufferType.DRAM else "l1"
        spec = memory.shard_spec
        if spec is not None:
            found["shard_shape"] = list(spec.shape)
            found["grid"] = [[r.start.x, r.start.y, r.end.x, r.end.y] for r in spec.grid.ranges()]
            found["orientation"] = "row" if spec.orientation == self.orientations["row"] else "col"
        return found

    def tensors_in(self, value: Any) -> list[Any]:
        """Tensors of a call's result, in order: a tensor, or lists of tensors and of other things."""
        if self.is_tensor(value):
            return [value]
        if isinstance(value, list | tuple):
            return [tensor for part in value for tensor in self.tensors_in(part)]
        return []

    # -- L1 --------------------------------------------------------------------------------------------------
    def l1_in_use(self) -> int:
        """Bytes per bank that tensors hold."""
        return int(self.ttnn.get_memory_view(self.device, self.ttnn.BufferType.L1).total_bytes_allocated_per_bank)

    def free_everything(self) -> None:
        """Also what an op that failed half-way has left behind."""
        self.ttnn._ttnn.device.deallocate_buffers(self.device)

    def usage(self, nodes: traces.Nodes) -> Message:
        """`{peak_cb, peak_l1, peak_total}` of a capture; bytes per core."""
        found = self.ttnn.graph.extract_resource_usage_per_core(nodes)
        bound = 1 << 63
        peaks = {
            "peak_cb": found.peak_cb + found.peak_dataflow_buffer + found.peak_scratchpad,
            "peak_l1": found.peak_l1,
            "peak_total": found.peak_total,
        }
        if max(peaks["peak_l1"], peaks["peak_total"]) >= bound:  # the op freed an input
            return {**peaks, **traces.recounted(nodes), "peak_underflow": True}
        return peaks

    def captured(self, mode: Any, run: Callable[[], Any]) -> tuple[Any, traces.Nodes, BaseException | None]:
        """`(result, nodes, error)` of `run()` under a graph capture; exactly one of result and error counts."""
        graph = self.ttnn._ttnn.graph  # its Python wrapper records arguments as well, for which it needs torch
        if mode is not None:
            graph.begin_graph_capture(mode)
        result: Any = None
        problem: BaseException | None = None
        try:
            result = run()
        except Exception as error:  # noqa: BLE001 - whatever tt-metal throws is the answer
            problem = error
        return result, [] if mode is None else graph.end_graph_capture(), problem


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


# -- the loop ------------------------------------------------------------------------------------------------
class Service:
    """Requests in, answers out, one at a time and in order."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.queries = Queries(board)
        self.session: Session | None = None

    def answer(self, request: Message) -> Message:
        kind = request.get("kind")
        if kind == "query":
            if self.session is not None:
                raise BadRequestError("a program session is open; end it first")
            return self.queries.answer(request)
        if kind == "hello":
            return self.board.hello()
        if kind == "evaluate":
            return self._evaluate(request)
        if kind == "begin":
            return self._begin(request["source"])
        if self.session is None:
            raise BadRequestError(f"no program session is open for {kind!r}")
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
        raise BadRequestError(f"unknown request {kind!r}")

    def _evaluate(self, request: Message) -> Message:
        try:
            return evaluation.evaluate(self.board, request)
        except Exception as error:  # noqa: BLE001 - whatever tt-metal throws is the answer
            return {"valid": False, **traces.explain(error)}

    def _begin(self, source: str) -> Message:
        if self.session is not None:
            raise BadRequestError("a program session is open; end it first")
        try:
            self.session = Session(self.board, source)
        except Exception as error:  # noqa: BLE001 - a program that cannot be loaded is an answer
            self.board.free_everything()
            return {"valid": False, "error": f"{type(error).__name__}: {traces.explain(error)['error']}"}
        return {"valid": True, "l1_after": self.board.l1_in_use()}


def open_board(name: str, l1_small: int, source: str) -> Board:
    """Set the surroundings up, import ttnn and open the device."""
    if source == "mock":
        root = environment.prepare_mock(name, importlib.metadata.version("ttnn"))
        os.chdir(root)
    elif source == "sim":
        os.chdir(simulator.prepare(name, importlib.metadata.version("ttnn")))
    import ttnn

    device = ttnn.open_device(device_id=0, l1_small_size=l1_small)
    device.disable_and_clear_program_cache()  # a cached program reports no buffers
    return Board(ttnn, device, l1_small, source)


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
        except BadRequestError as error:
            answer = {"bad_request": str(error)}
        signal.alarm(0)
        pipe.send({"id": request.get("id"), "ms": round((time.perf_counter() - start) * 1e3, 3), **answer})


def main() -> None:
    source_fd, target_fd, board, l1_small, source = sys.argv[1:]
    if sys.path and os.path.abspath(sys.path[0] or ".") == os.path.dirname(os.path.abspath(__file__)):
        del sys.path[0]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which closes the pipe
    pipe = pipes.Pipe(int(source_fd), int(target_fd))
    try:
        opened = open_board(board, int(l1_small), source)
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
