"""The stand-in as a module: what `import ttnn` gives an emitted program."""

from __future__ import annotations

import ast
import builtins
import dataclasses
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ttnn_standin import attention, conv_pool, creation, eltwise, matmul, movement, norm, reduction
from ttnn_standin.context import INERT, Context, Op
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.queues import Queues
from ttnn_standin.signatures import RECORD, bound, unmodelled
from ttnn_standin.tensor import Array, Buffer, Device, Machine, Tensor, maker
from ttnn_standin.values import DRAM, ENUMS, L1, BufferType, DataType, Layout, Type, Value

OPS: dict[str, Op] = {
    name: op
    for family in (eltwise, matmul, conv_pool, norm, reduction, movement, creation, attention)
    for name, op in family.OPS.items()
}
"""Function of `ttnn`, dotted below a package of its own -> what it does."""
_DTYPES = ("bfloat16", "float32", "uint32", "int32", "uint16", "uint8", "bfloat8_b", "bfloat4_b")
GRIDS = {"n150": (8, 8), "n300": (8, 8), "p100": (11, 10), "p150": (11, 10)}
"""Board -> its grid of cores (x, y)."""
Observer = Callable[[str, str, Any], None]
"""Told function, variable and what was assigned."""


class Standin:
    """One stand-in: a device, and the functions and types that emitted programs name."""

    def __init__(
        self, board: str = "n150", *, real: Any = np.float32, rounding: bool = False, aliasing: bool = True
    ) -> None:
        self.machine = Machine(board, GRIDS[board], real, rounding, aliasing)
        self.Tensor: type[Tensor] = type("Tensor", (Tensor,), {"machine": self.machine})
        self.queues = self.machine.queues = Queues(self.machine)
        self._context = Context(self.machine, maker(self.machine, self.Tensor))
        self.device = Device(board, GRIDS[board], self.queues)
        self.calls: dict[str, int] = {}
        """How often every function was called."""
        self.ttnn = self._module()

    def _module(self) -> Any:
        module = SimpleNamespace(__name__="ttnn", Tensor=self.Tensor, **ENUMS)
        for name in RECORD["types"]:
            if name != "Tensor":
                setattr(module, name, Type(name))
        for name in _DTYPES:
            setattr(module, name, getattr(DataType, name.upper()))
        module.TILE_LAYOUT, module.ROW_MAJOR_LAYOUT = Layout.TILE, Layout.ROW_MAJOR
        module.DRAM_MEMORY_CONFIG, module.L1_MEMORY_CONFIG = DRAM, L1
        slices = ENUMS["Conv2dSliceConfig.SliceTypeEnum"]
        module.Conv2dDRAMSliceHeight, module.Conv2dDRAMSliceWidth = slices.DRAMSliceHeight, slices.DRAMSliceWidth
        module.Conv2dL1FullSliceConfig = Value("Conv2dSliceConfig", {"slice_type": slices.L1Full})
        module.init_device_compute_kernel_config = self._compute_config
        module.open_device, module.close_device = self._open, self._close
        module.to_dtype = self._to_dtype
        module.StorageType = SimpleNamespace(HOST="host", DEVICE="device")
        for name, function in self.queues.functions().items():
            setattr(module, name, function)
        for name, op in OPS.items():
            place, _, last = name.rpartition(".")
            if place and not hasattr(module, place):
                setattr(module, place, SimpleNamespace())
            setattr(getattr(module, place) if place else module, last, self._function(name, op))
        return module

    def _function(self, name: str, op: Op) -> Callable[..., Any]:
        overloads = RECORD["functions"][name]

        def call(*positional: Any, **named: Any) -> Any:
            self.machine.op = name
            self.calls[name] = self.calls.get(name, 0) + 1
            arguments = bound(name, overloads, positional, named)
            if arguments.get("device") is not None and not arguments["device"].open:
                raise Refused(f"ttnn.{name}: the device is closed")

            def compute() -> Any:
                with np.errstate(all="ignore"):
                    return op(self._context, arguments)

            result = self.queues.called(name, compute, arguments.unasked())
            unmodelled(arguments, INERT)
            return result

        return call

    def _compute_config(self, *positional: Any, **named: Any) -> Value:
        name = "init_device_compute_kernel_config"
        fields = bound(name, RECORD["functions"][name], positional, named)
        if fields["math_fidelity"].name == "Invalid":
            raise Refused("a math fidelity that is none")
        return Value("WormholeComputeKernelConfig", fields)

    def _to_dtype(self, tensor: Tensor, dtype: Any) -> Tensor:
        if tensor.on_device:
            raise Refused("ttnn.to_dtype: a tensor on the device")
        self.machine.op = "to_dtype"
        return self._context.make(tensor.read(), dtype, tensor.layout, None)

    def _open(
        self, *, device_id: int, l1_small_size: int, num_command_queues: int = 1, trace_region_size: int = 0
    ) -> Device:
        if device_id != 0 or l1_small_size < 0 or l1_small_size % 32:
            raise Refused(f"ttnn.open_device: device {device_id} with {l1_small_size} bytes")
        if num_command_queues not in (1, 2):
            raise Refused(f"ttnn.open_device: {num_command_queues} command queues")
        self.queues.count, self.queues.trace_region = num_command_queues, trace_region_size
        return self.device

    def _close(self, device: Device) -> None:
        device.open = False

    def load(self, text: str, observer: Observer | None = None) -> Program:
        """The text of a `model_ttnn.py`, ready to run; `observer` is told every tensor that a variable gets."""
        tree = ast.parse(text)
        if observer is not None:
            tree = ast.fix_missing_locations(_Observed().visit(tree))
        names: dict[str, Any] = {
            "__name__": "model_ttnn", "__file__": "model_ttnn.py", "__observe__": observer,
            "__builtins__": {**vars(builtins), "__import__": self._import},
        }  # fmt: skip
        exec(compile(tree, "model_ttnn.py", "exec"), names)
        return Program(self, names)

    def _import(self, name: str, *rest: Any) -> Any:
        if name == "ttnn":
            return self.ttnn
        if name not in ("base64", "os", "struct", "sys", "math", *_NUMPYS_OWN):
            raise Refused(f"an emitted program imports {name}")
        return builtins.__import__(name, *rest)


_NUMPYS_OWN = ("numpy.core._methods", "numpy._core._methods")
"""What NumPy imports when one of its methods is first called, whoever calls it."""


@dataclasses.dataclass
class Program:
    """A loaded program."""

    standin: Standin
    names: dict[str, Any]

    @property
    def inputs(self) -> Mapping[str, dict[str, Any]]:
        """Entries of INPUTS by name."""
        return {entry["name"]: entry for entry in self.names["INPUTS"]}

    @property
    def parameters(self) -> Mapping[str, dict[str, Any]]:
        """Entries of PARAMETERS by name."""
        return {entry["name"]: entry for entry in self.names["PARAMETERS"]}

    def run(self, inputs: Mapping[str, Any], weights: Mapping[str, Any]) -> Run:
        """The outputs of a run, and what it left behind. Weights may hold more than is asked for."""
        missing = sorted(set(self.parameters) - set(self.names["CONSTANTS"]) - set(weights))
        if missing or set(inputs) != set(self.inputs):
            raise Refused(f"no arrays for {', '.join(missing) or sorted(set(self.inputs) ^ set(inputs))}")
        device = self.standin.device
        fed = {name: _fed(weights[name], e) for name, e in self.parameters.items() if name in weights}
        parameters = self.names["make_parameters"](device, fed)
        given = self.names["make_inputs"](device, {name: _fed(inputs[name], e) for name, e in self.inputs.items()})
        kept = {**parameters, **given}
        before = {name: tensor.raw() for name, tensor in kept.items()}
        alive = {id(buffer) for buffer in self.standin.machine.live()}
        outputs: list[Tensor] = self.names["run"](device, given, parameters)
        lost = [name for name, tensor in kept.items() if not _unchanged(tensor, before[name])]
        if lost:
            raise Refused(f"run freed or changed {', '.join(lost)}, which is there for every run")
        alive |= {id(tensor.buffer.within or tensor.buffer) for tensor in outputs}
        leaks = [buffer for buffer in self.standin.machine.live() if id(buffer) not in alive]
        return Run([tensor.read() for tensor in outputs], outputs, leaks)


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run gave."""

    outputs: list[Any]
    """Elements."""
    tensors: list[Tensor]
    leaks: list[Buffer]
    """Device buffers that the last run made, and neither returned nor freed."""


def _unchanged(tensor: Tensor, before: Array) -> bool:
    """Whether a tensor still has these very elements: nothing freed it or wrote into its buffer."""
    return tensor.buffer.freed_by is None and np.shares_memory(tensor.raw(), before)


def _fed(array: Any, entry: Mapping[str, Any]) -> Any:
    """An array as `ttnn.Tensor` takes it for an entry of INPUTS or PARAMETERS."""
    kinds = {"UINT32": np.uint32, "INT32": np.int32, "UINT16": np.uint16, "UINT8": np.uint8}
    wanted = kinds.get(entry["dtype"].name, np.float32)
    array = np.asarray(array)
    if np.issubdtype(wanted, np.integer) and array.size:
        limits = np.iinfo(wanted)
        if array.min() < limits.min or array.max() > limits.max:
            raise Refused(f"{entry['name']} holds {array.min()} to {array.max()}, it is {entry['dtype']}")
    made = array.reshape(entry["shape"]).astype(wanted, copy=False)
    return made if made.flags.writeable else made.copy()


class _Observed(ast.NodeTransformer):
    """Puts a call of the observer behind every assignment in `run` and `prepare_parameters`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name not in ("run", "prepare_parameters"):
            return node
        body: list[ast.stmt] = []
        for statement in node.body:
            body.append(statement)
            if isinstance(statement, ast.Assign):
                for target in (n for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)):
                    told = ast.Call(
                        ast.Name("__observe__", ast.Load()),
                        [ast.Constant(node.name), ast.Constant(target.id), ast.Name(target.id, ast.Load())],
                        [],
                    )
                    body.append(ast.Expr(told))
        node.body = body
        return node


__all__ = ["OPS", "BufferType", "Program", "Run", "Standin", "Unmodelled"]
