"""Chains and reservations that a document states, compared with what its ops and layouts say.

Under the policy `global` both follow from the plan and are found again: a chain is a maximal run of two or more ops in
which each reads a result of the one before it in L1, and every value in L1 has a reservation. `dfsharding2` states
reservations alike, and chains as it built them, which only have to be possible; `dfsharding` states chains only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import l1_bytes_per_core, round_up
from optimizer.result import COPIES, ChainRecord, OptimizedGraph, Reservation, Role
from optimizer.verify.figures import FASTEST
from optimizer.verify.memory_rules import shared_operand, weights_in_l1
from optimizer.verify.subject import Error

_RESERVING = ("dfsharding2", FASTEST)
"""Policies that keep values in L1 beyond a chain, and state which."""
_STATES = ("completed", "failed")


def chains(result: OptimizedGraph) -> Iterator[Error]:
    """Chains of ops that exist, in their order, each op in the chain that it names; under `global`, all there are."""
    order = {op.id: n for n, op in enumerate(result.graph.ops())}
    for chain_id, count in Counter(chain.id for chain in result.chains).items():
        if count > 1:
            yield chain_id, "two chains have this id"
    for chain in result.chains:
        places = [order.get(op_id, -1) for op_id in chain.ops]
        if not places or min(places) < 0 or any(a >= b for a, b in pairwise(places)):
            yield chain.id, "names ops that do not exist, or not in the order of the schedule"
        else:
            yield from _chain(result, chain)
    yield from _members(result)
    if result.options.policy == FASTEST and result.summary_json() and not (_cut_off(result) and not result.chains):
        found, stated = [tuple(run) for run in _runs(result)], [chain.ops for chain in result.chains]
        for ops in [ops for ops in found if ops not in stated]:
            yield ops[0], f"these {len(ops)} ops are a chain, which is not stated"
        for chain in result.chains:
            if chain.ops not in found:
                yield chain.id, "is no maximal run of ops that read each other's results in L1"


def _cut_off(result: OptimizedGraph) -> bool:
    """Whether the policy had no time to look at everything, and may have returned a plan that it reports nothing of."""
    return bool(result.summary_json().get("status") == "fallback")


def _chain(result: OptimizedGraph, chain: ChainRecord) -> Iterator[Error]:
    """State, reason and end of one chain; `dfsharding` means every end for DRAM, also one that is read in L1 only."""
    if chain.state not in _STATES:
        yield chain.id, f"has state {chain.state}, which no finished chain has"
    if (chain.state == "failed") is not (chain.reason is not None):
        yield chain.id, f"is {chain.state}, {'without' if chain.reason is None else 'with'} a reason to fail"
    if chain.state == "completed":
        found = _end_of(result, chain.ops[-1])
        meant = result.options.policy == "dfsharding" and chain.spill_location == "dram"
        if chain.spill_location != found and not meant:
            yield chain.id, f"states that its end goes to {chain.spill_location}, it goes to {found}"
    elif chain.spill_location != "none":
        yield chain.id, f"failed, but states that its end goes to {chain.spill_location}"


def _end_of(result: OptimizedGraph, op_id: str) -> str:
    """Where the first result of a chain's last op goes."""
    value = result.graph.op(op_id).outputs[0]
    layout = result.layouts[value]
    spilled = any(result.records[r.id].role is Role.SPILL for r in result.graph.consumers(value))
    if spilled or not layout.is_l1:
        return "dram"
    return "none" if layout.is_sharded else "l1_interleaved"


def _members(result: OptimizedGraph) -> Iterator[Error]:
    """Ops and completed chains name each other; a copy names the chain of the op that it is made for."""
    stated = {chain.id: chain for chain in result.chains}
    inside = {op_id: chain.id for chain in result.chains if chain.state == "completed" for op_id in chain.ops}
    for op_id, record in result.records.items():
        if record.chain is not None and record.chain not in stated:
            yield op_id, f"names the chain '{record.chain}', which is not stated"
        elif record.role in COPIES:
            wanted = _chain_of_copy(result, op_id)
            if record.chain != wanted:
                yield op_id, f"names the chain {record.chain}, it is made for an op of {wanted}"
        elif record.chain == inside.get(op_id):
            continue
        elif record.chain is None or op_id not in stated[record.chain].ops or op_id in inside:
            yield op_id, f"names the chain {record.chain}, it is in {inside.get(op_id)}"


def _chain_of_copy(result: OptimizedGraph, op_id: str) -> str | None:
    """The chain that a copy belongs to: that of the op that reads it, none for one to DRAM."""
    if result.records[op_id].role is Role.SPILL:
        return None
    reader = next(iter(result.graph.consumers(result.graph.op(op_id).outputs[0])), None)
    return None if reader is None else result.records[reader.id].chain


def _runs(result: OptimizedGraph) -> list[list[str]]:
    runs: list[list[str]] = []
    before: Op | None = None
    for op in scheduled(result):
        if before is not None and _follows(result, before, op):
            runs[-1].append(op.id)
        else:
            runs.append([op.id])
        before = op
    return [run for run in runs if len(run) > 1]


def scheduled(result: OptimizedGraph) -> Iterator[Op]:
    """Ops that a policy places: no copies, nothing prepared once."""
    for op in result.graph.ops():
        role = result.records[op.id].role
        placed = role not in (*COPIES, Role.TRANSFER, Role.HOST)
        if placed or (role is Role.HOST and opdef(op.op).opaque):
            yield op


def _follows(result: OptimizedGraph, before: Op, op: Op) -> bool:
    """Whether an op reads a result of the one before it in L1, as it is or through a reshard."""
    for v in op.inputs:
        while result.layouts[v].is_l1 and v not in before.outputs:
            maker = result.graph.producer(v)
            if maker is None or result.records[maker.id].role is not Role.RESHARD:
                break
            v = maker.inputs[0]
        if result.layouts[v].is_l1 and v in before.outputs:
            return True
    return False


# -- reservations ---------------------------------------------------------------------------------------------
def reservations(result: OptimizedGraph) -> Iterator[Error]:
    """Every value in L1 from where it is computed to where it is read last, if the policy states that; else none."""
    if not result.summary_json() or (_cut_off(result) and not result.reservations):
        return
    found = _kept(result) if result.options.policy in _RESERVING else {}
    stated: dict[str, Reservation] = {}
    for reservation in result.reservations:
        if reservation.value in stated:
            yield reservation.value, "has two reservations"
        stated[reservation.value] = reservation
    for value, wanted in found.items():
        given = stated.get(value)
        if given != wanted:
            shown = "none" if given is None else f"{given.bytes} B from {given.start} to {given.end}"
            yield value, f"is in L1: {wanted.bytes} B from {wanted.start} to {wanted.end}, stated is {shown}"
    for value in stated.keys() - found.keys():
        yield value, "has a reservation, but is in no L1 that a policy reserves"


def _kept(result: OptimizedGraph) -> dict[str, Reservation]:
    position = {op.id: n for n, op in enumerate(result.graph.ops())}
    placed = list(scheduled(result))
    if not placed:
        return {}
    kept = {}
    first, last = position[placed[0].id], position[placed[-1].id]
    for v in weights_in_l1(result):
        size = round_up(_bytes(result, v), result.device.l1_buffer_alignment_bytes)
        kept[v] = Reservation(v, first, last, size)
    ends = _last_reads(result, position)
    for op in placed:
        for v in op.outputs:
            if result.layouts[v].is_l1:
                kept[v] = Reservation(v, position[op.id], ends.get(v, position[op.id]), _bytes(result, v))
    return kept


def _last_reads(result: OptimizedGraph, position: dict[str, int]) -> dict[str, int]:
    """Value -> where it is read in L1 for the last time; a reshard reads where its reader does, a spill nowhere.

    What an operand's buffer is taken for, as a view or in place, keeps the operand until that is read last.
    """
    ends: dict[str, int] = {}
    for op in reversed(list(result.graph.ops())):
        record = result.records[op.id]
        if record.role is Role.SPILL:
            continue
        at = position[op.id]
        if record.role is Role.RESHARD:
            at = max((position[r.id] for r in result.graph.consumers(op.outputs[0])), default=at)
        for v in op.inputs:
            ends[v] = max(ends.get(v, 0), at)
        shared = shared_operand(record)
        if shared is not None:
            ends[op.inputs[shared]] = max(ends[op.inputs[shared]], ends.get(op.outputs[0], at))
    return ends


def _bytes(result: OptimizedGraph, value_id: str) -> int:
    value = result.graph.value(value_id)
    return l1_bytes_per_core(value.shape, value.dtype, result.layouts[value_id], result.device)
