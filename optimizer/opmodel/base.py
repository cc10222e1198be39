"""What the optimizer asks of a backend: `OpModel` and its question and answer types.

One protocol so that the optimizer never knows whether a formula, the real tt-metal on a mock device, a
real device or a cache answers. Backends register by name in `optimizer.opmodel.registry`; every one must
pass the conformance tests in `tests/opmodel/test_conformance.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.l1.events import OpAllocations
from optimizer.layouts.memory_config import MemoryConfig, TensorLayout
from optimizer.layouts.op_config import OpConfig


@dataclass(frozen=True)
class TensorSpec:
    """An operand or result as the backend sees it."""

    shape: tuple[int, ...]
    dtype: DType
    layout: TensorLayout
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.shape, self.dtype, self.layout)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """String hashes differ between processes, so the cached hash is never pickled."""
        return (TensorSpec, (self.shape, self.dtype, self.layout))


@dataclass(frozen=True)
class OpQuery:
    """One op with concrete layouts. Equal queries have equal answers, so a query is a cache key."""

    op: str
    """Vocabulary name, e.g. `ttnn.matmul`."""
    inputs: tuple[TensorSpec, ...]
    attrs: tuple[tuple[str, Attr], ...] = ()
    """`Op.attrs_key`."""
    config: OpConfig | None = None
    output: MemoryConfig | None = None
    """The `memory_config=` argument; None leaves the output to the op. A sharded config without
    `shard_spec` asks the op to derive the shards."""
    output_dtype: DType | None = None
    """The `dtype=` argument; None keeps what the op gives."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key = (self.op, self.inputs, self.config, self.output)  # the rest seldom tells queries apart
        object.__setattr__(self, "_hash", hash(key))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """String hashes differ between processes, so the cached hash is never pickled."""
        return (OpQuery, (self.op, self.inputs, self.attrs, self.config, self.output, self.output_dtype))

    @property
    def attr(self) -> dict[str, Attr]:
        return dict(self.attrs)


class Rejection(StrEnum):
    """Why a query is invalid; the values are the `kind` column of `ttopt opmodel query`."""

    VALIDATION = "validation"
    """The op refuses the combination."""
    OOM_L1 = "oom_l1"
    """An L1 tensor does not fit."""
    OOM_DRAM = "oom_dram"
    OOM_L1_SMALL = "oom_l1_small"
    CB_TOO_BIG = "cb_too_big"
    """Circular buffers alone exceed L1."""
    CB_CLASH = "cb_clash"
    """Circular buffers reach a tensor."""
    WRONG_VALUES = "wrong_values"
    """tt-metal takes it, and its kernels give wrong values or write beyond their result (`known_faults`)."""
    ABORT = "abort"
    """The backend process dies on this query."""
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class OpConstraints:
    """Answer to 'may this op run so, and what does it take?'. All byte figures are per core."""

    valid: bool
    kind: Rejection | None = None
    error: str | None = None
    outputs: tuple[TensorSpec, ...] = ()
    """The results actually produced: shape, element type and layout of each."""
    cb_bytes: int = 0
    """Circular (and dataflow) buffers, those backed by a tensor left out."""
    l1_peak_bytes: int = 0
    """Peak of L1 tensors allocated inside the op: outputs and temporaries. Inputs are not counted."""
    peak_bytes: int = 0
    """Peak over time of `cb + tensors` inside the op: never above `cb_bytes + l1_peak_bytes`."""
    choice_room_bytes: int = 0
    """L1 that must be free beside the operands for the answer to hold: with less, tt-metal chooses another program
    config for an op that was given none. 0: no such choice, or nothing known."""
    cores: int = 0
    """Cores that compute."""
    allocations: OpAllocations | None = None
    """What happens in L1 in order, of an op that makes more than its results there or frees an operand; None of others,
    and where only sums are known."""

    @staticmethod
    def rejected(kind: Rejection, error: str) -> OpConstraints:
        return OpConstraints(valid=False, kind=kind, error=error)


class Bound(StrEnum):
    """What limits an op's time."""

    COMPUTE = "compute"
    DRAM = "dram"
    NOC = "noc"
    PCIE = "pcie"
    DISPATCH = "dispatch"


@dataclass(frozen=True, slots=True)
class CostPart:
    """One device program of an op: what its time is made of, in nanoseconds."""

    name: str
    """Kind of program: `matmul`, `halo`, `eltwise`, ..."""
    time_ns: float
    start_ns: float
    """Launch and fill."""
    terms: tuple[tuple[Bound, float], ...] = ()
    """What could bound it; the longest does, and a share of the others adds to it."""
    tail_ns: float = 0.0
    """What nothing overlaps: the last block's write, the first block's read."""


@dataclass(frozen=True)
class OpCost:
    """Answer to 'how long does it take?' for a valid query. `time_ns` is a positive integer."""

    time_ns: int
    bound: Bound
    dram_read_bytes: int = 0
    """Bytes read from DRAM by all cores together."""
    dram_write_bytes: int = 0
    parts: tuple[CostPart, ...] = ()
    """The programs that the op runs, where a backend says."""


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """What lies between the device programs of a run, in nanoseconds."""

    gap_ns: float
    """From the end of a program to the start of the next one, replayed from a trace."""
    dispatch_ns: float
    """Least time between the starts of two programs that the host dispatches one by one."""


@runtime_checkable
class OpModel(Protocol):
    """A backend for one board."""

    name: str
    device: DeviceSpec
    l1_small_bytes: int
    launch: LaunchTimes | None
    """None where the backend does not say."""

    def constraints(self, query: OpQuery) -> OpConstraints:
        """Whether the op accepts these layouts on an otherwise empty L1, and what it then takes."""
        ...

    def cost(self, query: OpQuery) -> OpCost:
        """Predicted time and DRAM traffic; only meaningful for queries that `constraints` accepts."""
        ...

    def runtime_ns(self, query: OpQuery) -> int:
        """`cost(query).time_ns`."""
        ...


@runtime_checkable
class BatchOpModel(Protocol):
    """A backend that answers many queries in less time than one by one."""

    def constraints_many(self, queries: Sequence[OpQuery], jobs: int | None = None) -> list[OpConstraints]:
        """`constraints` of each query, in order; `jobs` processes at once (None: the backend's own default)."""
        ...


@dataclass(frozen=True)
class StepAnswer:
    """What became of one step of a program. All byte figures are per core."""

    valid: bool
    kind: Rejection | None = None
    error: str | None = None
    results: tuple[TensorSpec, ...] = ()
    """The tensors that the step was asked about, as they really are."""
    addresses: tuple[int | None, ...] = ()
    """Where each of them lies in L1; None for those in DRAM or on the host."""
    l1_before_bytes: int = 0
    """L1 held by tensors when the step began, its operands included."""
    l1_after_bytes: int = 0
    cb_bytes: int = 0
    """As in `OpConstraints`, of an accepted step."""
    peak_bytes: int = 0
    """Peak of buffers and tensors that the step itself made, as in `OpConstraints`."""


class ProgramSession(Protocol):
    """One program under way on a backend: statements run in order, tensors live on between them."""

    def step(self, code: str, results: Sequence[str] = ()) -> StepAnswer:
        """Run statements and describe the tensors that these names then hold. A refused step changes nothing."""
        ...


@runtime_checkable
class ProgramRunner(Protocol):
    """A backend that can also run whole programs, with the real allocator and everything that is resident."""

    def program(self, source: str) -> AbstractContextManager[ProgramSession]:
        """Start a program from the text of its module; OpModelError if the module itself fails."""
        ...
