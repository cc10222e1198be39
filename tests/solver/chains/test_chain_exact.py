"""DP and CP-SAT on hand-made chains whose optimum can be checked by eye, and on chains beyond enumeration."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from optimizer.errors import LimitError, StateError
from optimizer.solver.chains.bitset import full_mask
from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import solve_chain_cpsat
from optimizer.solver.chains.chain_dp import solve_linear_chain
from optimizer.solver.chains.chain_engines import BitsetEngine
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainResult,
    ChainSolution,
    Edge,
    Failure,
    ReshardOption,
    SolveStatus,
)
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain, materialise
from optimizer.solver.chains.shard_solver import ShardSolver
from tests.solver.chain_samples import TableOracle
from tests.solver.chain_samples import entry as entry_of

Solver = Callable[[MaterialisedChain, ChainObjective], ChainResult]
BOTH = pytest.mark.parametrize("solve", [solve_linear_chain, solve_chain_cpsat])


def table(problem: ChainProblem, *edges: EdgeTable, entry: EdgeTable | None = None) -> MaterialisedChain:
    first = entry or entry_of(full_mask(problem.config_counts[0]))
    return MaterialisedChain(problem, tuple(problem.initial_masks()), edges, (first,))


def solution(result: ChainResult) -> ChainSolution:
    assert isinstance(result, ChainSolution)
    return result


@BOTH
def test_reshard_is_taken_where_it_saves_time(solve: Solver) -> None:
    """Direct: 50 + 100. Through layout 7: 50 + copy 20 + 10 on the fast config."""
    problem = ChainProblem(core_usage=((8,), (8, 8)), edges=(Edge(0, 1),), time_ns=((50,), (100, 10)))
    edge = EdgeTable(direct=(0b01,), reshards=(ReshardOption(7, enables=0b10),), reshard_ns=((20,),))

    result = solution(solve(table(problem, edge), ChainObjective.TIME))

    assert (result.configs, result.edge_reshards, result.time_ns, result.bound) == ((0, 1), (7,), 80, 80)


@BOTH
def test_reshard_costs_nothing_for_cores(solve: Solver) -> None:
    problem = ChainProblem(core_usage=((8,), (8, 9)), edges=(Edge(0, 1),), time_ns=((50,), (10, 10)))
    edge = EdgeTable(direct=(0b01,), reshards=(ReshardOption(7, enables=0b10),), reshard_ns=((5000,),))

    result = solution(solve(table(problem, edge), ChainObjective.CORE_USAGE))

    assert (result.configs, result.core_usage, result.bound, result.time_ns) == ((0, 1), 17, 17, 5060)


@BOTH
def test_fastest_reshard_layout_depends_on_both_ends(solve: Solver) -> None:
    problem = ChainProblem(core_usage=((1, 1), (1,)), edges=(Edge(0, 1),), time_ns=((0, 5), (0,)))
    edge = EdgeTable(
        direct=(0, 0),
        reshards=(ReshardOption(1, 1), ReshardOption(2, 1)),
        reshard_ns=((30, 9), (10, 30)),
        resharded_ns=((1,), (9,)),
    )

    result = solution(solve(table(problem, edge), ChainObjective.TIME))

    assert (result.configs, result.edge_reshards, result.time_ns) == ((1, 0), (1,), 15)


@BOTH
def test_equal_times_go_to_more_cores_then_rank_then_index(solve: Solver) -> None:
    time = ((7, 7, 7, 7),)

    more_cores = solution(solve(table(ChainProblem(core_usage=((8, 9, 9, 9),), time_ns=time)), ChainObjective.TIME))
    by_rank = solution(
        solve(
            table(ChainProblem(core_usage=((9, 9, 9, 9),), time_ns=time, tie_rank=((1, 1, 0, 0),))),
            ChainObjective.TIME,
        )
    )

    assert (more_cores.configs, by_rank.configs) == ((1,), (2,))


@BOTH
def test_exit_and_entry_costs_count(solve: Solver) -> None:
    problem = ChainProblem(core_usage=((1, 1, 1),), time_ns=((10, 9, 8),), exit_ns=((0, 5, 0),))
    entry = entry_of(direct=0b011, reshards=(ReshardOption(4, 0b100),), direct_ns=(0, 0, 0), reshard_ns=((0, 0, 1),))

    result = solution(solve(table(problem, entry=entry), ChainObjective.TIME))

    assert (result.configs, result.entry_reshards, result.time_ns) == ((2,), ((0, 4),), 9)


@BOTH
def test_infeasible_chain_is_reported(solve: Solver) -> None:
    problem = ChainProblem(core_usage=((1, 1), (1, 1), (1,)), edges=(Edge(0, 1), Edge(1, 2)))

    result = solve(table(problem, EdgeTable((0b01, 0b01)), EdgeTable((0, 1))), ChainObjective.TIME)

    assert isinstance(result, ChainInfeasible)
    assert result.status is SolveStatus.INFEASIBLE


def test_dp_names_the_edge_nothing_crosses() -> None:
    problem = ChainProblem(core_usage=((1, 1), (1, 1), (1,)), edges=(Edge(0, 1), Edge(1, 2)))

    result = solve_linear_chain(table(problem, EdgeTable((0b01, 0b01)), EdgeTable((0, 1))), ChainObjective.TIME)

    assert isinstance(result, ChainInfeasible)
    assert (result.failure, result.edge) == (Failure.NO_PATH, Edge(1, 2))


@BOTH
def test_chain_without_a_usable_entry_is_reported(solve: Solver) -> None:
    result = solve(table(ChainProblem(core_usage=((1,),)), entry=entry_of(0)), ChainObjective.CORE_USAGE)

    assert isinstance(result, ChainInfeasible)
    assert (result.failure, result.op) == (Failure.ENTRY, 0)


@BOTH
def test_times_beyond_exact_integers_are_refused(solve: Solver) -> None:
    with pytest.raises(LimitError, match="too large"):
        solve(table(ChainProblem(core_usage=((64,),), time_ns=((10**15,),))), ChainObjective.TIME)


def test_dp_refuses_forks() -> None:
    problem = ChainProblem(core_usage=((1,), (1,), (1,)), edges=(Edge(0, 1), Edge(0, 2)))

    with pytest.raises(StateError, match="linear"):
        solve_linear_chain(table(problem, EdgeTable((1,)), EdgeTable((1,))), ChainObjective.TIME)


def layered_chain(ops: int, configs: int, layouts: int, seed: int, skips: bool) -> MaterialisedChain:
    """A chain as op configs make it: each has one output layout and a set of layouts it reads."""
    random = Random(seed)
    edges = [Edge(op - 1, op) for op in range(1, ops)]
    if skips:
        edges += [Edge(random.randrange(op - 2), op, 1) for op in range(3, ops, 3)]
    volumes = [random.choice((1, 2, 4, 8, 16, 32, 64)) for _ in range(layouts)]
    output = [[random.randrange(layouts) for _ in range(configs)] for _ in range(ops)]
    reads = [[set(random.sample(range(layouts), 2)) for _ in range(configs)] for _ in range(ops)]
    problem = ChainProblem(
        core_usage=tuple(tuple(volumes[layout] for layout in row) for row in output),
        edges=tuple(edges),
        time_ns=tuple(tuple(random.randrange(2_000, 90_000) for _ in range(configs)) for _ in range(ops)),
    )
    tables = []
    for edge in edges:
        accepts = [
            sum(1 << config for config in range(configs) if layout in reads[edge.consumer][config])
            for layout in range(layouts)
        ]
        options = tuple(ReshardOption(layout, accepts[layout]) for layout in range(layouts) if accepts[layout])
        copies = tuple(tuple(random.randrange(1_000, 20_000) for _ in range(configs)) for _ in options)
        tables.append(EdgeTable(tuple(accepts[layout] for layout in output[edge.producer]), options, (), copies))
    return table(problem, *tables)


@pytest.mark.parametrize("seed", range(3))
def test_three_solvers_agree_on_a_chain_of_20_ops(seed: int) -> None:
    chain = layered_chain(20, 24, 10, seed, skips=False)
    cores = ShardSolver(chain.problem, TableOracle(chain)).solve()
    solved_problem = materialise(chain.problem, TableOracle(chain), modes=cores.modes)

    by_cpsat = solve_chain_cpsat(solved_problem, ChainObjective.CORE_USAGE)
    by_dp = solve_linear_chain(solved_problem, ChainObjective.CORE_USAGE)

    assert solution(cores).configs == solution(by_cpsat).configs == solution(by_dp).configs


@pytest.mark.parametrize("seed", range(3))
def test_dp_and_cpsat_agree_on_time_with_8_ops(seed: int) -> None:
    chain = layered_chain(8, 24, 10, seed, skips=False)

    by_cpsat = solution(solve_chain_cpsat(chain, ChainObjective.TIME))
    by_dp = solution(solve_linear_chain(chain, ChainObjective.TIME))

    assert (by_cpsat.configs, by_cpsat.time_ns) == (by_dp.configs, by_dp.time_ns)


@pytest.mark.parametrize("seed", range(3))
def test_shard_solver_and_cpsat_agree_on_a_dag_of_15_ops(seed: int) -> None:
    chain = layered_chain(15, 12, 6, seed, skips=True)
    cores = ShardSolver(chain.problem, TableOracle(chain)).solve()

    by_cpsat = solve_chain_cpsat(
        materialise(chain.problem, TableOracle(chain), modes=cores.modes), ChainObjective.CORE_USAGE
    )

    assert solution(cores).configs == solution(by_cpsat).configs


@pytest.mark.parametrize("skips", [False, True])
def test_the_engine_takes_the_solver_that_fits(skips: bool) -> None:
    chain = layered_chain(8, 8, 6, 3, skips)

    result = solution(BitsetEngine().fastest(chain))

    assert result == solution((solve_chain_cpsat if skips else solve_linear_chain)(chain, ChainObjective.TIME))


def test_live_configs_narrow_the_tables_without_changing_the_optimum() -> None:
    chain = layered_chain(10, 12, 8, 1, skips=False)
    oracle = TableOracle(chain)
    cores = solution(ShardSolver(chain.problem, oracle).solve())

    narrow = materialise(chain.problem, oracle, modes=cores.modes, live=cores.live)

    assert narrow.masks == cores.live
    assert solution(solve_linear_chain(narrow, ChainObjective.CORE_USAGE)).configs == cores.configs


def test_limit_is_reported_and_reproducible() -> None:
    chain = layered_chain(15, 24, 10, 4, skips=True)

    first, second = (solve_chain_cpsat(chain, ChainObjective.TIME, max_deterministic_time=0.01) for _ in range(2))

    assert first == second
    assert first.status in (SolveStatus.FEASIBLE, SolveStatus.UNKNOWN)


def test_repeated_solves_are_equal() -> None:
    chain = layered_chain(8, 16, 8, 2, skips=True)

    results = [solve_chain_cpsat(chain, ChainObjective.TIME) for _ in range(2)]

    assert results[0] == results[1]


def test_ortools_is_loaded_only_when_solving() -> None:
    modules = "optimizer.solver.chains.chain_engines, optimizer.solver.chains.shard_solver"
    code = f"import sys, {modules}; sys.exit('ortools' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
