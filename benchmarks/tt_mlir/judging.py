"""A result judged: verified, priced by the cost model as it stands, replayed on the mock tt-metal."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from optimizer.answers.checking import check_record
from optimizer.errors import TtoptError
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.limit.predictions import Totals
from optimizer.opmodel.base import OpCost, OpModel
from optimizer.opmodel.pricing import op_query
from optimizer.pipeline.finishing import predicted, summarise
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import Plan
from optimizer.verify import verify

SHOWN_ERRORS = 5


@dataclass(frozen=True)
class Price:
    """Sums over the ops of one run."""

    time_ns: int
    dram_read_bytes: int
    dram_write_bytes: int
    stand_ins: tuple[str, ...] = ()
    """Ops that the cost model refuses as placed, priced with everything in DRAM."""


def priced(result: OptimizedGraph, model: OpModel) -> Price:
    """What a result costs, whether or not it verifies."""
    time_ns = read = write = 0
    stand_ins = []
    for op in result.graph.ops():
        record = result.records[op.id]
        if record.role is Role.HOST:
            continue
        query = op_query(result.graph, op, [result.layouts[v] for v in op.inputs], record.config, record.request)
        if not model.constraints(query).valid:
            stand_ins.append(op.id)
            inputs = tuple(t if t.layout.is_host else replace(t, layout=DRAM_TILE) for t in query.inputs)
            query = replace(query, inputs=inputs, config=None, output=DRAM_TILE.memory)
        cost: OpCost = model.cost(query)
        time_ns += cost.time_ns
        read += cost.dram_read_bytes
        write += cost.dram_write_bytes
    return Price(time_ns, read, write, tuple(stand_ins))


def judged(result: OptimizedGraph, model: OpModel, replay: bool) -> dict[str, Any]:
    """`{predicted_time_ns, dram_read_bytes_total, dram_write_bytes_total, reshards, loads, spills, refused_ops, ...}`.

    `refused_ops` counts the ops that the replay refuses or gives another result for; null without a replay.
    """
    report = verify(result, model)
    price = priced(result, model)
    roles = Counter(record.role for record in result.records.values())
    record: dict[str, Any] = {
        "predicted_time_ns": price.time_ns,
        "dram_read_bytes_total": price.dram_read_bytes,
        "dram_write_bytes_total": price.dram_write_bytes,
        "reshards": roles[Role.RESHARD],
        "loads": roles[Role.LOAD],
        "spills": roles[Role.SPILL],
        "l1_peak_bytes": report.peak_l1_bytes,
        "refused_ops": None,
        "verified": report.ok,
        "errors": [{"op": place, "message": message} for place, message in report.errors],
    }
    if price.stand_ins:
        record["priced_from_dram"] = list(price.stand_ins)
    return {**record, **_replayed(result)} if replay else record


def _replayed(result: OptimizedGraph) -> dict[str, Any]:
    """What tt-metal says of every op of the program, all tensors in place."""
    try:
        answer = check_record(result, "ttmetal")
    except TtoptError as error:
        return {"refused_ops": None, "replay_error": str(error)}
    return {"refused_ops": len(answer["errors"]), "refused": answer["errors"][:SHOWN_ERRORS]}


def completed(result: OptimizedGraph, model: OpModel, baseline: Totals) -> OptimizedGraph:
    """A plan that verifies with predictions and summary, so that it can be saved like one of ours; else as it is."""
    report = verify(result, model)
    if not report.ok:
        return result
    priced = predicted(result, model, report)
    return replace(priced, priced=summarise(priced, model, report, baseline, Plan((), {})))
