"""A trace tells the truth about the solve it was taken of."""

from __future__ import annotations

from hypothesis import given

from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.chain_engines import BitsetEngine
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainSolution,
    Edge,
    EdgeMode,
    Failure,
    ReshardOption,
)
from optimizer.solver.chains.core_usage import accumulate_core_usage, usage_scales
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain
from optimizer.solver.chains.shard_trace import ChainTrace
from tests.solver.chain_samples import TableOracle
from tests.solver.chain_samples import entry as entry_of
from tests.solver.test_agreement import CHAINS, EXAMPLES


def traced(chain: MaterialisedChain) -> ChainTrace:
    return ChainTrace.of(BitsetEngine().solve, chain.problem, TableOracle(chain))


PAIR = ChainProblem(core_usage=((8, 4, 2), (8, 4)), edges=(Edge(0, 1),))


def pair(rows: tuple[int, ...], reshards: tuple[ReshardOption, ...] = ()) -> ChainTrace:
    """The solve of a chain of two ops: every config accepts DRAM, the edge is as given."""
    table = MaterialisedChain(PAIR, (0b111, 0b11), (EdgeTable(rows, reshards),), (entry_of(0b111),))
    return traced(table)


def test_what_an_edge_eliminates_on_both_sides() -> None:
    trace = pair((0, 0b10, 0b10))

    (step,) = trace.edges
    assert (step.mode, step.pairs_built, step.reshards) == (EdgeMode.DIRECT, 2, ())
    assert (step.before, step.after) == ((0b111, 0b11), (0b110, 0b10))
    assert (step.eliminated(0), step.eliminated(1)) == (0b001, 0b01)
    assert trace.resolved is not None
    assert trace.resolved.path_sets == ({1: 0b10, 2: 0b10},)
    assert trace.resolved.pairs_left(0) == 2
    assert [trace.resolved.usage.exact(0, c) for c in (1, 2)] == [8, 6]
    assert trace.ranked(0) == (1, 2)


def test_layouts_that_bridge_an_edge_without_pairs() -> None:
    options = (ReshardOption(7, 0b01, producers=0b111), ReshardOption(9, 0b10, producers=0b001))

    trace = pair((0, 0, 0), options)

    (step,) = trace.edges
    assert (step.mode, step.reshards, step.pairs_built) == (EdgeMode.RESHARD, options, 4)
    assert isinstance(trace.result, ChainSolution)
    assert trace.result.edge_reshards == (7,)


def test_why_an_edge_failed() -> None:
    trace = pair((0, 0, 0))

    (step,) = trace.edges
    assert (step.mode, step.failure, step.pairs_built, step.after) == (None, Failure.NO_PATH, 0, ())
    assert (step.eliminated(0), trace.left(0), trace.left(1)) == (0, 0b111, 0b11)
    assert (trace.resolved, trace.ranked(0)) == (None, ())


@EXAMPLES
@given(CHAINS)
def test_a_trace_changes_nothing_and_adds_up(chain: MaterialisedChain) -> None:
    trace = traced(chain)

    assert trace.result == BitsetEngine().solve(chain.problem, TableOracle(chain))
    ops = range(chain.problem.num_ops)
    for step in trace.edges:
        assert all(step.after[op] | step.eliminated(op) == step.before[op] for op in ops if step.after)
    if trace.resolved is None:
        assert isinstance(trace.result, ChainInfeasible)
        return
    live, paths = trace.resolved.live, trace.resolved.path_sets
    assert live == tuple(trace.left(op) for op in ops)
    assert trace.resolved.usage == accumulate_core_usage(
        chain.problem, live, [dict(p) for p in paths], usage_scales(chain.problem)
    )
    left = sum(trace.resolved.pairs_left(index) for index in range(len(paths)))
    assert left == trace.result.stats.paths_left
    assert all(set(trace.ranked(op)) == set(indices_of(live[op])) for op in ops)
