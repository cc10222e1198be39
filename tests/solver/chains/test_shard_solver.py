"""ShardSolver: the published vector, entries, reshards, selection and failures, one small chain each."""

# ruff: noqa: ARG002  (the oracles below implement a protocol and need not use every argument)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import pytest

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import full_mask, indices_of
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainSolution,
    Edge,
    EdgeMode,
    Failure,
    ReshardOption,
    SolveStatus,
)
from optimizer.solver.chains.shard_solver import ShardSolver


@dataclass
class PairOracle:
    """Oracle from explicit lists of compatible pairs per edge; every entry config reads DRAM by default."""

    pairs: dict[Edge, set[tuple[int, int]]]
    options: dict[Edge, list[ReshardOption]] = field(default_factory=dict)
    entry_masks: dict[int, int] = field(default_factory=dict)
    entry_options: dict[int, list[ReshardOption]] = field(default_factory=dict)
    asked: list[tuple[str, Edge, int, int]] = field(default_factory=list)

    def external(self, op: int, consumer_mask: int) -> int:
        return self.entry_masks.get(op, consumer_mask)

    def external_reshards(self, op: int, consumer_mask: int) -> Sequence[ReshardOption]:
        return self.entry_options.get(op, [])

    def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
        self.asked.append(("paths", edge, producer_mask, consumer_mask))
        rows = [0] * 8
        for producer, consumer in self.pairs[edge]:
            rows[producer] |= 1 << consumer
        return rows[: self.sizes[edge.producer]]

    def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
        self.asked.append(("reshards", edge, producer_mask, consumer_mask))
        return self.options.get(edge, [])

    def external_ns(self, op: int, config: int) -> int:
        return 0

    def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
        return 0

    def reshard_ns(self, edge: Edge, producer_config: int, layout_id: int) -> int:
        return 0

    def resharded_ns(self, edge: Edge, layout_id: int, consumer_config: int) -> int:
        return 0

    def external_reshard_ns(self, op: int, layout_id: int, config: int) -> int:
        return 0

    sizes: tuple[int, ...] = ()


def solver_for(problem: ChainProblem, oracle: PairOracle) -> ShardSolver:
    oracle.sizes = problem.config_counts
    return ShardSolver(problem, oracle)


def chain(*core_usage: tuple[int, ...], **fields: object) -> ChainProblem:
    edges = tuple(Edge(op, op + 1) for op in range(len(core_usage) - 1))
    return ChainProblem(core_usage=core_usage, edges=edges, **fields)  # type: ignore[arg-type]


def solved(problem: ChainProblem, oracle: PairOracle) -> ChainSolution:
    result = solver_for(problem, oracle).solve()
    assert isinstance(result, ChainSolution)
    return result


def failed(problem: ChainProblem, oracle: PairOracle) -> ChainInfeasible:
    result = solver_for(problem, oracle).solve()
    assert isinstance(result, ChainInfeasible)
    return result


DIAMOND_EDGES = (Edge(0, 1), Edge(1, 2), Edge(1, 3), Edge(2, 4, 0), Edge(3, 4, 1), Edge(4, 5))
SAME_INDEX = {(0, 0), (1, 1), (2, 2)}


def test_accumulated_usage_matches_the_tt_mlir_vector() -> None:
    """tt-mlir `TestShardSolver.VerifyProduceMaxCoreUsage`: config i is compatible with config i only."""
    volumes = ((4, 8, 2), (8, 4, 2), (4, 4, 2), (4, 4, 2), (2, 1, 1), (2, 1, 1))
    problem = ChainProblem(core_usage=volumes, edges=DIAMOND_EDGES)
    solver = solver_for(problem, PairOracle(dict.fromkeys(DIAMOND_EDGES, SAME_INDEX)))

    assert solver.resolve() is None
    usage = solver.accumulated_core_usage()

    values = [tuple(usage.exact(op, config) for config in range(3)) for op in range(6)]
    assert values == [(24, 22, 10), (20, 14, 8), (6, 5, 3), (6, 5, 3), (4, 2, 2), (2, 1, 1)]
    assert usage.bound == 24


def test_vector_chain_selects_the_first_configs() -> None:
    volumes = ((4, 8, 2), (8, 4, 2), (4, 4, 2), (4, 4, 2), (2, 1, 1), (2, 1, 1))
    problem = ChainProblem(core_usage=volumes, edges=DIAMOND_EDGES)

    result = solved(problem, PairOracle(dict.fromkeys(DIAMOND_EDGES, SAME_INDEX)))

    assert (result.configs, result.core_usage, result.status) == ((0,) * 6, 24, SolveStatus.OPTIMAL)
    assert result.edge_reshards == (None,) * 6


def test_usage_shared_by_three_operands_is_exact() -> None:
    edges = (Edge(0, 3, 0), Edge(1, 3, 1), Edge(2, 3, 2))
    solver = solver_for(
        ChainProblem(core_usage=((1,), (1,), (1,), (4,)), edges=edges), PairOracle({edge: {(0, 0)} for edge in edges})
    )

    assert solver.resolve() is None
    usage = solver.accumulated_core_usage()

    assert usage.exact(0, 0) == Fraction(7, 3)
    assert usage.bound == 7


def test_selection_looks_downstream() -> None:
    """Config 0 has more cores itself, config 1 leads to more in total."""
    result = solved(chain((8, 4), (1, 64)), PairOracle({Edge(0, 1): {(0, 0), (1, 1)}}))

    assert (result.configs, result.core_usage) == ((1, 1), 68)


def test_ties_go_to_the_lower_rank_then_the_lower_index() -> None:
    problem = chain((8, 8, 8), tie_rank=((1, 0, 0),))

    assert solved(problem, PairOracle({})).configs == (1,)


def test_of_choices_with_as_many_cores_the_fastest_is_taken() -> None:
    """The rank prefers config 0, but config 1 leads to a faster op; more cores count more than time."""
    pairs = {Edge(0, 1): {(0, 0), (1, 1), (2, 2)}}
    problem = chain((8, 8, 4), (4, 4, 4), tie_rank=((0, 1, 0), (0, 0, 0)), time_ns=((5, 5, 0), (90, 60, 0)))

    result = solved(problem, PairOracle(pairs))

    assert (result.configs, result.core_usage, result.time_ns) == ((1, 1), 12, 65)


def test_no_time_is_asked_for_where_cores_decide() -> None:
    class Priced(PairOracle):
        """Prices every way, and remembers which pairs it was asked for."""

        priced: ClassVar[list[tuple[int, ...]]] = []

        def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
            self.priced.append((producer_config, consumer_config))
            return 10

        def external_ns(self, *_: int) -> int:
            return 7

        def reshard_ns(self, *_: object) -> int:
            raise AssertionError("nothing is resharded here")

        resharded_ns = external_reshard_ns = reshard_ns

    oracle = Priced({Edge(0, 1): {(0, 0), (1, 1), (2, 1)}})

    result = solved(chain((8, 4, 2), (4, 4)), oracle)

    assert (result.configs, result.time_ns) == ((0, 0), 17)
    assert set(oracle.priced) == {(0, 0)}


def test_propagation_reaches_back_to_the_first_op() -> None:
    oracle = PairOracle({Edge(0, 1): {(0, 0), (1, 1)}, Edge(1, 2): {(0, 0), (1, 1)}, Edge(2, 3): {(1, 0)}})
    problem = chain((9, 1), (9, 1), (9, 1), (9,))

    result = solved(problem, oracle)

    assert result.live == (0b10, 0b10, 0b10, 0b1)
    assert result.configs == (1, 1, 1, 0)


def test_the_oracle_is_asked_for_live_configs_only() -> None:
    oracle = PairOracle({Edge(0, 1): {(0, 0), (1, 1)}, Edge(1, 2): {(0, 0)}}, entry_masks={0: 0b01})

    solved(chain((1, 1), (1, 1), (1,)), oracle)

    assert oracle.asked == [("paths", Edge(0, 1), 0b01, 0b11), ("paths", Edge(1, 2), 0b01, 0b1)]


def test_reshard_pairs_every_live_producer_with_every_enabled_consumer() -> None:
    options = [ReshardOption(layout_id=70, enables=0b001), ReshardOption(layout_id=71, enables=0b011)]
    oracle = PairOracle({Edge(0, 1): set()}, {Edge(0, 1): options})

    result = solved(chain((1, 5), (1, 7, 99)), oracle)

    assert (result.configs, result.edge_reshards, result.modes) == ((1, 1), (71,), (EdgeMode.RESHARD,))
    assert result.live == (0b11, 0b011)


def test_no_reshard_where_a_direct_path_exists() -> None:
    """Reactive: the reshard would double the cores, but the edge has a direct path."""
    options = [ReshardOption(layout_id=5, enables=0b10)]
    oracle = PairOracle({Edge(0, 1): {(0, 0)}}, {Edge(0, 1): options})
    problem = chain((4,), (4, 8))

    assert solved(problem, oracle).configs == (0, 0)
    assert [kind for kind, *_ in oracle.asked] == ["paths"]


def test_forced_reshard_ignores_direct_paths() -> None:
    oracle = PairOracle({Edge(0, 1): {(0, 0)}}, {Edge(0, 1): [ReshardOption(layout_id=5, enables=0b11)]})

    result = solved(chain((4,), (8, 4), forced_reshards=(0,)), oracle)

    assert (result.edge_reshards, result.modes) == ((5,), (EdgeMode.RESHARD,))
    assert [kind for kind, *_ in oracle.asked] == ["reshards"]


def test_reshard_that_only_some_producers_can_take() -> None:
    options = [ReshardOption(layout_id=3, enables=0b1, producers=0b10)]
    oracle = PairOracle({Edge(0, 1): set()}, {Edge(0, 1): options})

    result = solved(chain((64, 1), (1,)), oracle)

    assert (result.configs, result.live) == ((1, 0), (0b10, 0b1))


def test_entry_reads_dram_where_it_can() -> None:
    oracle = PairOracle({}, entry_masks={0: 0b10}, entry_options={0: [ReshardOption(9, 0b01)]})

    result = solved(chain((64, 8)), oracle)

    assert (result.configs, result.entry_reshards) == ((1,), ((0, None),))


def test_entry_is_resharded_if_no_config_reads_dram() -> None:
    oracle = PairOracle({}, entry_masks={0: 0}, entry_options={0: [ReshardOption(8, 0b01), ReshardOption(9, 0b10)]})

    result = solved(chain((8, 64)), oracle)

    assert (result.configs, result.entry_reshards) == ((1,), ((0, 9),))


def test_convolution_entry_is_always_resharded() -> None:
    oracle = PairOracle({}, entry_options={0: [ReshardOption(9, 0b10)]})

    result = solved(chain((64, 8), always_reshard_entry=(0,)), oracle)

    assert (result.configs, result.entry_reshards) == ((1,), ((0, 9),))


def test_failure_names_the_edge_without_paths() -> None:
    oracle = PairOracle({Edge(0, 1): {(0, 0)}, Edge(1, 2): set()})

    result = failed(chain((1,), (1,), (1,)), oracle)

    assert (result.status, result.failure, result.edge) == (SolveStatus.INFEASIBLE, Failure.NO_PATH, Edge(1, 2))
    assert result.modes == (EdgeMode.DIRECT, None)
    assert result.describe(["conv", "relu", "add"]) == (
        "relu -> add (operand 0): no pair of configs is compatible and no reshard helps"
    )


def test_failure_names_the_op_without_configs() -> None:
    result = failed(chain((1,), ()), PairOracle({Edge(0, 1): set()}))

    assert (result.failure, result.op, result.edge) == (Failure.NO_CONFIG, 1, None)


def test_failure_names_the_entry() -> None:
    result = failed(chain((1,)), PairOracle({}, entry_masks={0: 0}))

    assert (result.failure, result.op) == (Failure.ENTRY, 0)


TRIANGLE = (Edge(0, 1), Edge(1, 2, 0), Edge(0, 2, 1))
CONTRADICTION = {TRIANGLE[0]: {(0, 0), (1, 1)}, TRIANGLE[1]: {(0, 0), (1, 1)}, TRIANGLE[2]: {(0, 1)}}
"""The skip edge 0 -> 2 is compatible by itself, but not with the way over op 1."""


def test_failure_names_the_edge_that_contradicts_the_rest() -> None:
    result = failed(ChainProblem(core_usage=((1, 1),) * 3, edges=TRIANGLE), PairOracle(CONTRADICTION))

    assert (result.failure, result.edge) == (Failure.PROPAGATION, TRIANGLE[2])


def test_edge_whose_direct_paths_contradict_the_chain_is_resharded() -> None:
    oracle = PairOracle(CONTRADICTION, {TRIANGLE[2]: [ReshardOption(4, 0b10)]})

    result = solved(ChainProblem(core_usage=((1, 1),) * 3, edges=TRIANGLE), oracle)

    assert (result.configs, result.edge_reshards) == ((1, 1, 1), (None, None, 4))


def test_contradiction_only_the_search_can_see() -> None:
    """Two operands from one producer, one wants the same index, the other a different one: arc consistent."""
    edges = (Edge(0, 1, 0), Edge(0, 1, 1))
    oracle = PairOracle({edges[0]: {(0, 0), (1, 1)}, edges[1]: {(0, 1), (1, 0)}})

    result = failed(ChainProblem(core_usage=((1, 1), (1, 1)), edges=edges), oracle)

    assert (result.status, result.failure) == (SolveStatus.INFEASIBLE, Failure.SEARCH)


def test_1500_configs_are_all_considered() -> None:
    """Only the last config of each op is compatible downstream; a fixed bitset of 512 would lose it."""
    count = 1500

    class Shifted(PairOracle):
        def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
            live = set(indices_of(producer_mask))
            return [full_mask(count) & ~full_mask(min(i + 1, count)) if i in live else 0 for i in range(count)]

        def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
            return []

    problem = chain(*[tuple(range(count, 0, -1))] * 4)
    result = ShardSolver(problem, Shifted({})).solve()

    assert isinstance(result, ChainSolution)
    assert result.configs == (0, 1, 2, 3)
    assert result.live[3] == full_mask(count) & ~0b111
    assert result.live[0].bit_length() == count - 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"core_usage": ()}, "at least one op"),
        ({"core_usage": ((1,), (1,)), "edges": (Edge(1, 0),)}, "schedule order"),
        ({"core_usage": ((1,), (1,), (1,)), "edges": (Edge(0, 2), Edge(1, 2))}, "two producers"),
        ({"core_usage": ((1, 2),), "tie_rank": ((0,),)}, "tie_rank"),
        ({"core_usage": ((1,), (1,)), "edges": (Edge(0, 1),), "always_reshard_entry": (1,)}, "no chain entry"),
        ({"core_usage": ((1,),), "forced_reshards": (0,)}, "does not exist"),
    ],
)
def test_ill_formed_problems_are_refused(fields: dict[str, tuple[object, ...]], message: str) -> None:
    with pytest.raises(StateError, match=message):
        ChainProblem(**fields)  # type: ignore[arg-type]
