"""One query being judged: what the op families share.

A family is a function `(Case) -> Usage` that raises `Refused` where tt-metal would refuse. Everything it
needs (query, attributes with defaults, the device) is on the `Case`; the checks of input tensors before and
of room in L1 after are made by `AnalyticalOpModel`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from optimizer.device import DeviceSpec
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.l1.events import OpAllocations
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorLayout
from optimizer.opmodel.analytical.products.matmul_plan import Plan
from optimizer.opmodel.analytical.tensors import l1_bytes, spec_problem
from optimizer.opmodel.base import OpQuery, Rejection, TensorSpec


class Refused(Exception):
    """tt-metal would refuse the query."""

    def __init__(self, message: str, kind: Rejection = Rejection.VALIDATION) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind


def refuse(message: str, kind: Rejection = Rejection.VALIDATION) -> NoReturn:
    raise Refused(message, kind)


def need(condition: bool, message: str) -> None:
    """Refuse unless `condition` holds."""
    if not condition:
        raise Refused(message)


def need_named(memory: MemoryConfig) -> None:
    """Refuse shards that are left to the op."""
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")


@dataclass(slots=True)
class Usage:
    """What an accepted op produces and takes; bytes per core."""

    outputs: tuple[TensorSpec, ...]
    cb: int = 0
    """Largest circular-buffer size of the op's programs."""
    l1: int | None = None
    """Peak of tensors allocated inside; None: the outputs only."""
    peak: int | None = None
    """Peak of circular buffers plus tensors; None: `cb + l1`."""
    cores: int = 1
    block: tuple[int, int] | None = None
    """Output tiles (rows, columns) that one core of a matmul computes at a time."""
    blocks: int = 1
    """Such blocks per core."""
    plan: Plan | None = None
    """The program config of a matmul, given or chosen."""
    after: tuple[str, ...] = ()
    """Element-wise ops that follow in programs of their own: a bias or an activation that is not fused."""
    slices: int = 1
    """Parts that the op is run in, one after the other (a convolution from DRAM to DRAM)."""
    slices_along_height: bool = True
    """Whether these are rows of the image; else columns."""
    view: bool = False
    """Nothing runs: the result is another reading of operand 0."""
    room: int | None = None
    """Bytes that must be free beside the operands, where that is less than `peak` because buffers counted
    together never coexist on a core; None: `peak`."""
    allocations: OpAllocations | None = None
    """What happens in L1, in order; None where only the sums are known."""
    choice_room: int = 0
    """Bytes that must be free beside the operands for tt-metal to choose this program config by itself."""


@dataclass(slots=True)
class Case:
    """A query with its attributes spread out."""

    query: OpQuery
    device: DeviceSpec
    attrs: dict[str, Any]
    l1_small_bytes: int

    @property
    def x(self) -> TensorSpec:
        return self.query.inputs[0]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        return self.query.inputs

    @property
    def output(self) -> MemoryConfig | None:
        return self.query.output

    def operand(self, index: int) -> TensorSpec | None:
        return self.query.inputs[index] if index < len(self.query.inputs) else None

    def follow(self) -> MemoryConfig:
        """The requested memory config, else that of operand 0."""
        return self.query.inputs[0].layout.memory if self.query.output is None else self.query.output

    def result(
        self, shape: tuple[int, ...], dtype: DType, memory: MemoryConfig, page: PageLayout = PageLayout.TILE
    ) -> TensorSpec:
        """An output tensor; refused when no such tensor can exist."""
        tensor = TensorSpec(shape, dtype, TensorLayout(page, memory))
        problem = spec_problem(tensor, self.device)
        if problem is not None:
            raise Refused(problem)
        return tensor

    def l1(self, tensor: TensorSpec) -> int:
        return l1_bytes(tensor, self.device)

    @property
    def compute(self) -> dict[str, Any]:
        """The compute config that the call states; empty where it leaves that to the op."""
        return dict(self.attrs.get(COMPUTE) or ())

    def fp32(self, default: bool = False) -> bool:
        """32-bit accumulation in the destination registers."""
        stated = self.compute
        return bool(stated.get("fp32")) if stated else default

    def need_interleaved(self, *operands: TensorSpec) -> None:
        for tensor in operands:
            need(not tensor.layout.is_sharded, f"{self.query.op}: sharded operands are not supported")

    def interleaved(self, memory: MemoryConfig) -> MemoryConfig:
        """Where the result goes; refused when that is in shards."""
        need(not memory.is_sharded, f"{self.query.op}: sharded output is not supported")
        return memory

    def dtype(self) -> DType:
        """Requested output type, else that of operand 0."""
        return self.query.output_dtype or self.query.inputs[0].dtype


Family = Callable[[Case], Usage]
