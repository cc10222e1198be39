"""ShardSolver, DP and CP-SAT against exhaustive search on random small chains and DAGs.

The reference below shares no code with the solvers: it keeps plain sets of pairs, makes them arc consistent
by repeated scanning and enumerates every choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import solve_chain_cpsat
from optimizer.solver.chains.chain_dp import solve_linear_chain
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainResult,
    ChainSolution,
    Edge,
    EdgeMode,
    ReshardOption,
    SolveStatus,
)
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain, materialise
from optimizer.solver.chains.shard_solver import ShardSolver
from tests.samples import examples
from tests.solver.chain_samples import TableOracle
from tests.solver.chain_samples import entry as entry_of

EXAMPLES = settings(
    max_examples=examples(200),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)

Pairs = set[tuple[int, int]]
Domains = list[set[int]]


# --- random instances -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Uniform choices from one seed (hypothesis' own integers crowd at the ends: few feasible chains)."""

    random: Random

    def mask(self, width: int, density: float) -> int:
        return sum(1 << bit for bit in range(width) if self.random.random() < density)

    def row(self, width: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.random.randint(low, high) for _ in range(width))

    def matrix(self, rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
        return tuple(self.row(columns, -3, 9) for _ in range(rows))

    def options(self, producers: int, consumers: int) -> tuple[ReshardOption, ...]:
        return tuple(
            ReshardOption(
                100 + number,
                enables=self.mask(consumers, 0.6),
                producers=self.mask(producers, 0.8),
            )
            for number in range(self.random.choice((0, 1, 1, 2, 3)))
        )

    def edges(self, ops: int, linear: bool) -> tuple[Edge, ...]:
        edges = []
        for consumer in range(1, ops):
            if linear:
                producers = [consumer - 1] * self.random.choice((1, 1, 1, 2))
            else:
                count = self.random.choice((0, 1, 1, 2, 2, 3))
                producers = [self.random.randrange(consumer) for _ in range(count)]
            edges += [Edge(producer, consumer, operand) for operand, producer in enumerate(producers)]
        return tuple(edges)


def random_chain(seed: int, linear: bool) -> MaterialisedChain:
    random = Random(seed)
    draw = Draw(random)
    counts = draw.row(random.randint(1, 5), 1, 4)
    edges = draw.edges(len(counts), linear)
    entries = [op for op in range(len(counts)) if all(edge.consumer != op for edge in edges)]
    density = random.choice((0.25, 0.45, 0.7))
    problem = ChainProblem(
        core_usage=tuple(draw.row(count, 1, 6) for count in counts),
        edges=edges,
        tie_rank=tuple(draw.row(count, 0, 1) for count in counts),
        time_ns=tuple(draw.row(count, 0, 12) for count in counts),
        exit_ns=tuple(draw.row(count, 0, 5) for count in counts),
        always_reshard_entry=tuple(op for op in entries if random.random() < 0.2),
        forced_reshards=tuple(index for index in range(len(edges)) if random.random() < 0.1),
    )
    edge_tables = []
    for edge in edges:
        producers, consumers = counts[edge.producer], counts[edge.consumer]
        options = draw.options(producers, consumers)
        edge_tables.append(
            EdgeTable(
                tuple(draw.mask(consumers, density) for _ in range(producers)),
                options,
                draw.matrix(producers, consumers),
                draw.matrix(len(options), producers),
                draw.matrix(len(options), consumers),
            )
        )
    entry_tables = []
    for op in problem.entries:
        options = draw.options(1, counts[op])
        entry_tables.append(
            entry_of(
                draw.mask(counts[op], 0.6), options, draw.row(counts[op], -3, 9), draw.matrix(len(options), counts[op])
            )
        )
    return MaterialisedChain(problem, tuple(problem.initial_masks()), tuple(edge_tables), tuple(entry_tables))


SEEDS = st.integers(0, 2**32 - 1)
LINEAR = st.builds(random_chain, SEEDS, st.just(True))
CHAINS = st.builds(random_chain, SEEDS, st.booleans())


# --- the reference ----------------------------------------------------------------------------------------


def bits(mask: int) -> set[int]:
    return {i for i in range(mask.bit_length()) if mask & (1 << i)}


def direct_pairs(table: EdgeTable) -> Pairs:
    return {(p, c) for p, row in enumerate(table.direct) for c in bits(row)}


def reshard_pairs(table: EdgeTable) -> Pairs:
    return {(p, c) for option in table.reshards for p in bits(option.producers) for c in bits(option.enables)}


def arc_consistent(domains: Domains, relations: Iterable[tuple[Edge, Pairs]]) -> Domains | None:
    """Largest arc-consistent subdomains; None if a domain empties."""
    domains, relations = [set(domain) for domain in domains], list(relations)
    while True:
        before = [len(domain) for domain in domains]
        for edge, pairs in relations:
            live = {(p, c) for p, c in pairs if p in domains[edge.producer] and c in domains[edge.consumer]}
            domains[edge.producer] &= {p for p, _ in live}
            domains[edge.consumer] &= {c for _, c in live}
        if not all(domains):
            return None
        if [len(domain) for domain in domains] == before:
            return domains


@dataclass
class Reference:
    """The problem as the strategy leaves it: domains and one relation per edge, or None if it fails."""

    domains: Domains
    relations: list[tuple[Edge, Pairs]]
    failed: bool = False
    direct: list[Pairs] = field(default_factory=list)
    """Pairs of every relation that may be connected directly."""
    resharded: list[bool] = field(default_factory=list)
    """Whether every relation may be resharded."""


def reference(chain: MaterialisedChain, *, reactive: bool) -> Reference:
    problem = chain.problem
    domains = [bits(mask) for mask in chain.masks]
    for op, entry in zip(problem.entries, chain.entries, strict=True):
        direct = set() if op in problem.always_reshard_entry else bits(entry.direct[0]) & domains[op]
        usable = [option for option in entry.reshards if 0 in bits(option.producers)]
        resharded = {c for option in usable for c in bits(option.enables)} & domains[op]
        domains[op] = direct if direct and reactive else direct | resharded
    result = Reference(domains, [])
    if not all(domains):
        result.failed = True
    order = sorted(range(len(problem.edges)), key=lambda i: (problem.edges[i].consumer, problem.edges[i].operand))
    for index in order:
        edge, table = problem.edges[index], chain.edges[index]
        direct = set() if index in problem.forced_reshards else direct_pairs(table)
        result.direct.append(direct)
        result.resharded.append(not reactive)
        if not reactive:
            result.relations.append((edge, direct | reshard_pairs(table)))
            continue
        current = arc_consistent(result.domains, result.relations)
        if current is None:
            result.failed = True
            break
        if arc_consistent(current, [*result.relations, (edge, direct)]) is None:
            direct = reshard_pairs(table)
            result.direct[-1], result.resharded[-1] = set(), True
        result.relations.append((edge, direct))
    if not result.failed and arc_consistent(result.domains, result.relations) is None:
        result.failed = True
    return result


def all_solutions(ref: Reference) -> list[tuple[int, ...]]:
    if ref.failed:
        return []
    return [
        configs
        for configs in product(*[sorted(domain) for domain in ref.domains])
        if all((configs[edge.producer], configs[edge.consumer]) in pairs for edge, pairs in ref.relations)
    ]


def tie_key(chain: MaterialisedChain, configs: tuple[int, ...]) -> list[tuple[int, int]]:
    return [(chain.problem.tie_rank[op][config], config) for op, config in enumerate(configs)]


def cores(chain: MaterialisedChain, configs: tuple[int, ...]) -> int:
    return sum(chain.problem.core_usage[op][config] for op, config in enumerate(configs))


def most_cores(chain: MaterialisedChain, ref: Reference, *, reactive: bool) -> tuple[int, ...] | None:
    """Most cores, then least time over the ways that the reference allows, then least tie keys."""

    def order(configs: tuple[int, ...]) -> tuple[int, int, list[tuple[int, int]]]:
        return -cores(chain, configs), time_within(chain, ref, configs, reactive=reactive), tie_key(chain, configs)

    return min(all_solutions(ref), key=order, default=None)


def time_within(chain: MaterialisedChain, ref: Reference, configs: tuple[int, ...], *, reactive: bool) -> int:
    """Time of a solution with every edge and entry in the fastest way that is allowed there."""
    tables = dict(zip(chain.problem.edges, chain.edges, strict=True))
    total = own_ns(chain, configs)
    for (edge, _), direct, resharded in zip(ref.relations, ref.direct, ref.resharded, strict=True):
        pair = configs[edge.producer], configs[edge.consumer]
        total += min(edge_ways(tables[edge], pair, direct=pair in direct, resharded=resharded))
    for op, entry in zip(chain.problem.entries, chain.entries, strict=True):
        direct = set() if op in chain.problem.always_reshard_entry else bits(entry.direct[0]) & bits(chain.masks[op])
        total += min(entry_ways(entry, configs[op], direct, resharded=not (direct and reactive)))
    return total


def own_ns(chain: MaterialisedChain, configs: tuple[int, ...]) -> int:
    return sum(chain.problem.time_ns[op][c] + chain.problem.exit_ns[op][c] for op, c in enumerate(configs))


def edge_ways(table: EdgeTable, pair: tuple[int, int], *, direct: bool, resharded: bool) -> list[int]:
    p, c = pair
    ways = [table.direct_ns[p][c]] if direct else []
    for k, option in enumerate(table.reshards if resharded else ()):
        if p in bits(option.producers) and c in bits(option.enables):
            ways.append(table.reshard_ns[k][p] + table.resharded_ns[k][c])
    return ways


def entry_ways(entry: EdgeTable, config: int, direct: set[int], *, resharded: bool) -> list[int]:
    ways = [entry.direct_ns[0][config]] if config in direct else []
    for k, option in enumerate(entry.reshards if resharded else ()):
        if config in bits(option.enables) and 0 in bits(option.producers):
            ways.append(entry.resharded_ns[k][config])
    return ways


def least_time(chain: MaterialisedChain) -> tuple[int, tuple[int, ...]] | None:
    """(time, configs) of the fastest choice over every mode of every edge and entry."""
    problem = chain.problem
    best: tuple[int, int, list[tuple[int, int]], tuple[int, ...]] | None = None
    for configs in product(*[sorted(bits(mask)) for mask in chain.masks]):
        ways: list[list[int]] = []
        for index, (edge, table) in enumerate(zip(problem.edges, chain.edges, strict=True)):
            pair = configs[edge.producer], configs[edge.consumer]
            direct = pair in direct_pairs(table) and index not in problem.forced_reshards
            ways.append(edge_ways(table, pair, direct=direct, resharded=True))
        for op, entry in zip(problem.entries, chain.entries, strict=True):
            accepted = set() if op in problem.always_reshard_entry else bits(entry.direct[0])
            ways.append(entry_ways(entry, configs[op], accepted, resharded=True))
        if not all(ways):
            continue
        total = own_ns(chain, configs) + sum(min(way) for way in ways)
        key = (total, -cores(chain, configs), tie_key(chain, configs), configs)
        best = key if best is None or key < best else best
    return None if best is None else (best[0], best[3])


def chosen(result: ChainResult) -> tuple[int, ...] | None:
    if isinstance(result, ChainSolution):
        assert result.status is SolveStatus.OPTIMAL
        return result.configs
    assert result.status is SolveStatus.INFEASIBLE
    return None


# --- the properties ---------------------------------------------------------------------------------------


@EXAMPLES
@given(CHAINS)
def test_shard_solver_finds_the_exhaustive_optimum(chain: MaterialisedChain) -> None:
    result = ShardSolver(chain.problem, TableOracle(chain)).solve()

    assert chosen(result) == most_cores(chain, reference(chain, reactive=True), reactive=True)


@EXAMPLES
@given(CHAINS)
def test_cpsat_agrees_with_shard_solver_on_cores(chain: MaterialisedChain) -> None:
    result = ShardSolver(chain.problem, TableOracle(chain)).solve()

    exact = solve_chain_cpsat(
        materialise(chain.problem, TableOracle(chain), modes=result.modes), ChainObjective.CORE_USAGE
    )

    assert chosen(exact) == chosen(result)
    if isinstance(result, ChainSolution) and isinstance(exact, ChainSolution):
        assert exact.core_usage == result.core_usage == exact.bound == result.bound
        assert exact.time_ns == result.time_ns
        assert exact.edge_reshards == result.edge_reshards
        assert exact.entry_reshards == result.entry_reshards


@EXAMPLES
@given(CHAINS)
def test_cpsat_finds_the_least_time(chain: MaterialisedChain) -> None:
    expected = least_time(chain)

    result = solve_chain_cpsat(materialise(chain.problem, TableOracle(chain)), ChainObjective.TIME)

    assert chosen(result) == (expected and expected[1])
    if expected is not None and isinstance(result, ChainSolution):
        assert result.time_ns == result.bound == expected[0]


@EXAMPLES
@given(LINEAR)
def test_dp_finds_the_least_time(chain: MaterialisedChain) -> None:
    expected = least_time(chain)

    result = solve_linear_chain(materialise(chain.problem, TableOracle(chain)), ChainObjective.TIME)

    assert chosen(result) == (expected and expected[1])
    if expected is not None and isinstance(result, ChainSolution):
        assert result.time_ns == result.bound == expected[0]


@EXAMPLES
@given(LINEAR)
def test_dp_agrees_with_shard_solver_on_cores(chain: MaterialisedChain) -> None:
    result = ShardSolver(chain.problem, TableOracle(chain)).solve()

    exact = solve_linear_chain(
        materialise(chain.problem, TableOracle(chain), modes=result.modes), ChainObjective.CORE_USAGE
    )

    assert chosen(exact) == chosen(result)


@EXAMPLES
@given(CHAINS)
def test_propagation_keeps_exactly_the_configs_of_solutions_on_forests(chain: MaterialisedChain) -> None:
    """On a forest arc consistency is complete; on any chain it removes no config of a solution."""
    result = ShardSolver(chain.problem, TableOracle(chain)).solve()
    if isinstance(result, ChainInfeasible):
        return
    solutions = all_solutions(reference(chain, reactive=True))

    for op, live in enumerate(result.live):
        used = {configs[op] for configs in solutions}
        assert used <= bits(live)
        if chain.problem.is_forest:
            assert used == bits(live)


@EXAMPLES
@given(CHAINS)
def test_accumulated_usage_bounds_the_optimum(chain: MaterialisedChain) -> None:
    solver = ShardSolver(chain.problem, TableOracle(chain))
    best = most_cores(chain, reference(chain, reactive=True), reactive=True)
    if solver.resolve() is not None or best is None:
        return

    bound = solver.accumulated_core_usage().bound

    assert bound >= cores(chain, best)
    if chain.problem.is_forest:
        assert bound == cores(chain, best)


@EXAMPLES
@given(CHAINS)
def test_solutions_use_what_their_modes_say(chain: MaterialisedChain) -> None:
    result = ShardSolver(chain.problem, TableOracle(chain)).solve()
    if isinstance(result, ChainInfeasible):
        return

    for edge, table, layout, mode in zip(
        chain.problem.edges, chain.edges, result.edge_reshards, result.modes, strict=True
    ):
        pair = (result.configs[edge.producer], result.configs[edge.consumer])
        if mode is EdgeMode.DIRECT:
            assert layout is None
            assert pair in direct_pairs(table)
        else:
            option = next(option for option in table.reshards if option.layout_id == layout)
            assert pair[0] in bits(option.producers)
            assert pair[1] in bits(option.enables)


@EXAMPLES
@given(CHAINS)
def test_equal_problems_get_equal_results(chain: MaterialisedChain) -> None:
    first = ShardSolver(chain.problem, TableOracle(chain)).solve()
    second = ShardSolver(chain.problem, TableOracle(chain)).solve()

    assert first == second
