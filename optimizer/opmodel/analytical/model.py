"""`AnalyticalOpModel`: the OpModel protocol answered by formulas.

A query passes four gates: every device operand can exist, the op's family accepts it (see `families`),
the buffers fit below the circular-buffer limit, and operands plus the op's peak fit in the L1 bank.
"""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.device import DeviceSpec
from optimizer.families.elementwise.unary import in_place
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import OpDef
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import InPlaceConfig
from optimizer.opmodel.analytical.case import Case, Refused, Usage
from optimizer.opmodel.analytical.cost import CostModel
from optimizer.opmodel.analytical.generic import family
from optimizer.opmodel.analytical.tensors import dram_bank_bytes, l1_bytes, spec_problem
from optimizer.opmodel.analytical.timing import constants, spans
from optimizer.opmodel.base import LaunchTimes, OpConstraints, OpCost, OpQuery, Rejection, TensorSpec
from optimizer.opmodel.known_faults import fault
from optimizer.opmodel.spans import Span

KEPT_USAGES = 32768


class AnalyticalOpModel:
    """tt-metal's acceptance rules and sizes as formulas, and a time model fitted to measurements."""

    name = "analytical"

    def __init__(self, device: DeviceSpec, l1_small_bytes: int) -> None:
        self.device = device
        self.l1_small_bytes = l1_small_bytes
        known = constants(device.arch)
        self.launch: LaunchTimes | None = LaunchTimes(known["gap_ns"], known["dispatch_ns"])
        self.spans: Mapping[str, Span] = spans(device.arch)
        self._bank = device.l1_bank_bytes(l1_small_bytes)
        self._cost = CostModel(device)
        self._usages: dict[OpQuery, Usage] = {}
        self._sizes: dict[TensorSpec, tuple[int, int]] = {}

    def constraints(self, query: OpQuery) -> OpConstraints:
        """Whether tt-metal would run the op on an otherwise empty L1, and what it then takes."""
        try:
            wrong = fault(query)
        except (IndexError, KeyError, TypeError, ValueError) as error:  # attributes off
            return OpConstraints.rejected(Rejection.VALIDATION, f"{query.op} cannot take these attributes: {error}")
        if wrong is not None:
            return OpConstraints.rejected(Rejection.WRONG_VALUES, wrong)
        try:
            used, in_dram = self._input_bytes(query)
            usage = self._usage(query)
            return self._fitted(used, in_dram, usage)
        except Refused as refused:
            return OpConstraints.rejected(refused.kind, refused.message)

    def cost(self, query: OpQuery) -> OpCost:
        """Predicted time and DRAM traffic of a query that `constraints` accepts."""
        try:
            usage = self._usage(query)
        except Refused:  # no time of its own: as if the operands were moved by one core
            usage = Usage((), cores=1, view=not query.inputs)
        return self._cost.cost(query, usage)

    def runtime_ns(self, query: OpQuery) -> int:
        return self.cost(query).time_ns

    def _usage(self, query: OpQuery) -> Usage:
        """What the family says; kept for a while, since the cost of an accepted query is asked next."""
        kept = self._usages.get(query)
        if kept is None:
            if len(self._usages) >= KEPT_USAGES:
                self._usages.clear()
            kept = self._usages[query] = self._judged(query)
        return kept

    def _judged(self, query: OpQuery) -> Usage:
        row, count = opdef(query.op), len(query.inputs)
        if not row.min_inputs <= count <= max(row.max_inputs, row.most_asked):
            raise Refused(f"{query.op} does not take {count} operands")
        _check_types(row, query.inputs)
        try:
            case = Case(query, self.device, row.with_defaults(query.attrs), self.l1_small_bytes)
            usage = family(query.op)(case)
            return in_place(case, usage, query.config) if isinstance(query.config, InPlaceConfig) else usage
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:  # ranks or attributes off
            raise Refused(f"{query.op} cannot take these shapes and attributes: {error}") from error

    def _input_bytes(self, query: OpQuery) -> tuple[int, int]:
        """What all operands take, as `_size`; refused where they do not fit."""
        used = in_dram = 0
        for tensor in query.inputs:
            if tensor not in self._sizes:
                self._sizes[tensor] = self._size(tensor)
            in_l1, on_bank = self._sizes[tensor]
            used += in_l1
            in_dram += on_bank
        if in_dram > self.device.dram_bank_bytes:
            raise Refused("Out of Memory: DRAM operands do not fit", Rejection.OOM_DRAM)
        if used > self._bank:
            raise Refused(f"Out of Memory: operands need {used} B of {self._bank} B per bank", Rejection.OOM_L1)
        return used, in_dram

    def _size(self, tensor: TensorSpec) -> tuple[int, int]:
        """Bytes per core in L1 and per bank in DRAM; refused where no such tensor can exist."""
        if tensor.layout.is_host:
            return (0, 0)
        problem = spec_problem(tensor, self.device)
        if problem is not None:
            raise Refused(problem)
        return (l1_bytes(tensor, self.device), dram_bank_bytes(tensor, self.device))

    def _fitted(self, used: int, in_dram: int, usage: Usage) -> OpConstraints:
        """The answer for accepted usage, or the rejection that lack of room gives."""
        tensors = usage.l1
        if tensors is None:
            tensors = sum(l1_bytes(t, self.device) for t in usage.outputs)
        peak = usage.cb + tensors if usage.peak is None else usage.peak
        if used + tensors > self._bank:
            text = f"Out of Memory: {used} B of operands and {tensors} B of results exceed {self._bank} B per bank"
            raise Refused(text, Rejection.OOM_L1)
        if min(usage.cb, peak if usage.room is None else usage.room) > self.device.cb_limit_bytes:
            top = usage.cb + self.device.cb_base_bytes
            text = f"Statically allocated circular buffers grow to {top} B beyond {self.device.worker_l1_bytes} B"
            raise Refused(text, Rejection.CB_TOO_BIG)
        # Without a tensor in L1 the buffers may fill what is kept for small ones too.
        if used + tensors and used + (peak if usage.room is None else usage.room) > self._bank:
            text = f"Statically allocated circular buffers ({usage.cb} B) clash with L1 buffers ({used + tensors} B)"
            raise Refused(text, Rejection.CB_CLASH)
        if not usage.view:
            in_dram += sum(dram_bank_bytes(t, self.device) for t in usage.outputs)
        if in_dram > self.device.dram_bank_bytes:
            raise Refused("Out of Memory: DRAM result does not fit", Rejection.OOM_DRAM)
        happens = usage.allocations
        return OpConstraints(
            valid=True,
            outputs=usage.outputs,
            cb_bytes=usage.cb,
            l1_peak_bytes=tensors,
            peak_bytes=peak,
            choice_room_bytes=usage.choice_room,
            allocations=None if happens is None or happens.is_plain else happens,
            cores=max(1, usage.cores),
        )


def _check_types(row: OpDef, inputs: tuple[TensorSpec, ...]) -> None:
    """Refused where the op takes no elements of the operands' types."""
    if inputs and inputs[0].dtype not in row.takes:
        taken = ", ".join(dtype.value for dtype in DType if dtype in row.takes)
        raise Refused(f"{row.name} takes elements of type {taken}, not {inputs[0].dtype.value}")
    if len(inputs) > 1 and not row.mixes.allows(inputs[0].dtype, inputs[1].dtype):
        mixed = f"{inputs[0].dtype.value} with {inputs[1].dtype.value}"
        raise Refused(f"Mixed dtype is not supported for binary operation {row.name}: {mixed}")
