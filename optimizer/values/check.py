"""`ttopt check --values`: every distinct op query of a plan run once with random operands, and judged in float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.export.facts import query_of
from optimizer.ir.vocabulary import opdef
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.result import OptimizedGraph
from optimizer.values.bounds import Verdict, judge
from optimizer.values.compare import Agreement, compare
from optimizer.values.operands import paddings, random_operands
from optimizer.values.reference import reference

Report = Callable[["Checked"], None]


@dataclass(frozen=True)
class Checked:
    """One query and what became of it."""

    query: OpQuery
    ops: tuple[str, ...]
    """Ops of the plan that ask it."""
    verdicts: tuple[Verdict, ...] = ()
    """One a result; none where it did not run."""
    agreements: tuple[Agreement, ...] = ()
    problem: str | None = None
    """Why it could not be executed or judged."""

    @property
    def ok(self) -> bool:
        return self.problem is None and all(v.ok for v in self.verdicts)

    @property
    def worst(self) -> float:
        """Largest ratio of an error to its limit, of one element or of all together."""
        return max((max(v.worst, v.together) for v in self.verdicts), default=0.0)

    def record(self) -> dict[str, Any]:
        """For documents and tables."""
        return {
            "op": self.query.op,
            "ops": list(self.ops[:4]),
            "layouts": layout_class(self.query),
            "shapes": [list(spec.shape) for spec in self.query.inputs],
            "worst": float(f"{self.worst:.4g}"),
            "wrong_elements": sum(v.wrong for v in self.verdicts),
            "agreement": [a.record() for a in self.agreements],
            "problem": self.problem,
        }


@dataclass
class ValueReport:
    """All queries of one or several plans."""

    checked: list[Checked] = field(default_factory=list)

    @property
    def wrong(self) -> list[Checked]:
        return [c for c in self.checked if c.problem is None and not c.ok]

    @property
    def not_run(self) -> list[Checked]:
        return [c for c in self.checked if c.problem is not None]

    @property
    def ok(self) -> bool:
        """Whether everything that ran is right; what could not run is named beside."""
        return not self.wrong

    def record(self) -> dict[str, Any]:
        """`{queries, right, wrong, not_run, worst, by_op, findings}`; `findings` are those that are not right."""
        return {
            "queries": len(self.checked),
            "right": len(self.checked) - len(self.wrong) - len(self.not_run),
            "wrong": len(self.wrong),
            "not_run": len(self.not_run),
            "worst": max((float(f"{c.worst:.4g}") for c in self.checked), default=0.0),
            "by_op": self.by_op(),
            "findings": [c.record() for c in (*self.wrong, *self.not_run)],
        }

    def by_op(self) -> dict[str, dict[str, Any]]:
        """Per op: how many queries, how many could not run, and the worst ratio of an error to its limit."""
        table: dict[str, dict[str, Any]] = {}
        for c in sorted(self.checked, key=lambda c: c.query.op):
            row = table.setdefault(c.query.op, {"queries": 0, "wrong": 0, "not_run": 0, "worst": 0.0, "gain": 0.0})
            row["queries"] += 1
            row["not_run"] += c.problem is not None
            row["wrong"] += c.problem is None and not c.ok
            row["worst"] = max(row["worst"], float(f"{c.worst:.3g}"))
            gains = [abs(a.ratio - 1) for a in c.agreements if a.ratio == a.ratio]
            row["gain"] = max([row["gain"], *(float(f"{gain:.3g}") for gain in gains)])
        return table


def layout_class(query: OpQuery) -> str:
    """Where operands and result are, in short: `dram_interleaved.tile, l1_block.rm -> l1_height`."""
    operands = [f"{_place(s.layout.memory)}.{s.layout.page_layout.value}" for s in query.inputs if not s.layout.is_host]
    return f"{', '.join(operands)} -> {'default' if query.output is None else _place(query.output)}"


def _place(memory: Any) -> str:
    kind = memory.memory_layout.value.lower().removesuffix("_sharded")
    return f"{memory.buffer_type.value.lower()}_{kind}"


def value_queries(result: OptimizedGraph) -> dict[OpQuery, list[str]]:
    """Distinct queries of the ops that run on the device on every run -> their ops, in the order of the schedule."""
    graph, found = result.graph, dict[OpQuery, list[str]]()
    for op in graph.ops():
        if not opdef(op.op).opaque and not graph.is_const_eval(op):
            found.setdefault(query_of(result, op), []).append(op.id)
    return found


def check_queries(
    device: DeviceSpec,
    l1_small_bytes: int,
    queries: Iterable[tuple[OpQuery, tuple[str, ...]]],
    *,
    source: str = "sim",
    seed: int = 0,
    report: Report | None = None,
) -> ValueReport:
    """Run and judge queries one by one; a query on which the device's process ends is reported, and a new one goes on.

    ExecutionError when the device does not open at all.
    """
    found = ValueReport()
    with ExitStack() as stack:
        session: ExecutionSession | None = None
        for query, ops in queries:
            if session is None or not session.alive:
                stack.close()
                session = stack.enter_context(open_execution(device, l1_small_bytes, source))
            one = _checked(session, query, ops, seed)
            found.checked.append(one)
            if report is not None:
                report(one)
    return found


def _checked(session: ExecutionSession, query: OpQuery, ops: tuple[str, ...], seed: int) -> Checked:
    try:
        held, results = session.evaluate(query, random_operands(query, seed), paddings(query))
        wanted = reference(query, held)
    except ExecutionError as error:
        return Checked(query, ops, problem=str(error))
    if [r.shape for r in results] != [c.value.shape for c in wanted]:
        shapes = f"{[list(r.shape) for r in results]} instead of {[list(c.value.shape) for c in wanted]}"
        return Checked(query, ops, problem=f"{query.op}: results of shapes {shapes}")
    dtype = query.output_dtype or query.inputs[0].dtype
    verdicts = tuple(judge(query, dtype, got, want) for got, want in zip(results, wanted, strict=True))
    agreements = tuple(compare(got, want.value) for got, want in zip(results, wanted, strict=True))
    return Checked(query, ops, verdicts, agreements)


def check_values(
    result: OptimizedGraph,
    *,
    source: str = "sim",
    seed: int = 0,
    per_class: int | None = None,
    report: Report | None = None,
) -> ValueReport:
    """Every distinct query of a plan, or at most so many of each op and layout class."""
    queries = sample([result], sys.maxsize if per_class is None else per_class)
    return check_queries(result.device, result.options.l1_small_bytes, queries, source=source, seed=seed, report=report)


def sample(plans: Iterable[OptimizedGraph], per_class: int) -> Iterator[tuple[OpQuery, tuple[str, ...]]]:
    """Distinct queries of several plans, at most so many of each op and layout class, in the plans' order."""
    seen: set[OpQuery] = set()
    taken: dict[tuple[str, str], int] = {}
    for plan in plans:
        for query, ops in value_queries(plan).items():
            kind = (query.op, layout_class(query))
            if query in seen or taken.get(kind, 0) >= per_class:
                continue
            seen.add(query)
            taken[kind] = taken.get(kind, 0) + 1
            yield query, tuple(ops)
