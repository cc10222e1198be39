"""Both chain engines against exhaustive search, on random chains and DAGs, and on chains of real graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from optimizer.device import DeviceSpec
from optimizer.errors import UnknownNameError
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import CHAIN_SOLVERS, Options
from optimizer.pipeline import import_model, optimize_file, prepare
from optimizer.sharding.chains.chain_oracle import ChainOracle
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.dfsharding import DFShardingPolicy
from optimizer.solver.chains.chain_engines import ENGINES, BitsetEngine, CpSatEngine, engine
from optimizer.solver.chains.chain_problem import ChainInfeasible, ChainResult, ChainSolution, SolveStatus
from optimizer.solver.chains.materialise import MaterialisedChain, materialise
from tests.solver.chain_samples import TableOracle
from tests.solver.test_agreement import CHAINS, EXAMPLES, all_solutions, cores, least_time, reference

SOME = settings(EXAMPLES, max_examples=80)
GRAPHS = ("attention", "concat", "conv2d_relu", "fork", "mlp", "pool_then_eltwise")


def test_every_name_of_the_option_is_an_engine() -> None:
    assert tuple(ENGINES) == CHAIN_SOLVERS


def test_an_engine_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnknownNameError, match=r"chain solver 'cp' \(one of: .*cpsat"):
        engine("cp")


@pytest.mark.parametrize("name", CHAIN_SOLVERS)
@SOME
@given(chain=CHAINS)
def test_an_engine_finds_the_most_cores(name: str, chain: MaterialisedChain) -> None:
    solutions = all_solutions(reference(chain, reactive=True))

    result = engine(name).solve(chain.problem, TableOracle(chain))

    if not solutions:
        assert result.status is SolveStatus.INFEASIBLE
        return
    assert isinstance(result, ChainSolution)
    assert result.status is SolveStatus.OPTIMAL
    assert result.configs in solutions
    assert result.core_usage == result.bound == max(cores(chain, s) for s in solutions)


@pytest.mark.parametrize("name", CHAIN_SOLVERS)
@SOME
@given(chain=CHAINS)
def test_an_engine_finds_the_least_time(name: str, chain: MaterialisedChain) -> None:
    expected = least_time(chain)

    result = engine(name).fastest(materialise(chain.problem, TableOracle(chain)))

    found = result.time_ns if isinstance(result, ChainSolution) else None
    assert found == (expected and expected[0])


@SOME
@given(chain=CHAINS)
def test_the_engines_differ_in_nothing_but_the_search(chain: MaterialisedChain) -> None:
    bitset = BitsetEngine().solve(chain.problem, TableOracle(chain))
    cpsat = CpSatEngine().solve(chain.problem, TableOracle(chain))

    assert _described(bitset) == _described(cpsat)


def _described(result: ChainResult) -> object:
    """Where it failed, or what it rests on."""
    if isinstance(result, ChainInfeasible):
        return (result.failure, result.op, result.edge)
    return (result.core_usage, result.modes, result.live, result.time_ns, result.stats.paths_left)


class Seen:
    """The chains of a run, solved by the other engine too."""

    def __init__(self) -> None:
        self.pairs: list[tuple[str, ChainResult, ChainResult]] = []

    def __call__(self, chain: L1Chain, oracle: ChainOracle, solved: ChainResult) -> None:
        self.pairs.append((chain.id, solved, CpSatEngine().solve(oracle.chain_problem(), oracle)))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.slow
def test_the_engines_agree_on_the_chains_of_a_graph(project_root: Path, name: str) -> None:
    options, seen = Options(board="n150", policy="dfsharding"), Seen()
    opmodel = CachedOpModel(create("analytical", DeviceSpec.load("n150"), options.l1_small_bytes))
    problem = prepare(import_model(project_root / f"fixtures/graphs/{name}.json", options), opmodel, options)

    DFShardingPolicy(observer=seen).run(problem)

    assert seen.pairs
    assert [(i, _described(a)) for i, a, _ in seen.pairs] == [(i, _described(b)) for i, _, b in seen.pairs]


def test_a_plan_whose_chains_cpsat_solved_uses_as_many_cores(project_root: Path) -> None:
    plans = [
        optimize_file(project_root / "fixtures/graphs/mlp.json", Options(policy="dfsharding", chain_solver=name))
        for name in CHAIN_SOLVERS
    ]

    used = [[(c.id, c.ops, c.state, c.statistics.get("core_usage")) for c in plan.chains] for plan in plans]
    assert used[0] == used[1] != []
    assert [plan.options.chain_solver for plan in plans] == list(CHAIN_SOLVERS)
