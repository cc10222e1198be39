"""Where a chain is cut: the dynamic program against every way to cut small chains, and chains that are clear by eye."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np
import pytest

from optimizer.errors import StateError
from optimizer.solver.chains.chain_costs import INFEASIBLE, Costs
from optimizer.solver.chains.chain_cuts import CuttableChain, cuttable, paying_stretches
from optimizer.solver.chains.chain_problem import ChainProblem, Edge
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain
from tests.solver.chain_samples import TableOracle
from tests.solver.chain_samples import entry as entry_of


def costs(*rows: object) -> tuple[Costs, ...]:
    return tuple(np.array(row, dtype=np.int64) for row in rows)


def chain(plain: tuple[int, ...], enter: object, step: object, leave: object) -> CuttableChain:
    return CuttableChain(plain, costs(*enter), costs(*step), costs(*leave))  # type: ignore[misc]


def test_only_the_stretch_that_pays_is_kept() -> None:
    """Ops 1 and 2 are fast in L1, the first and the last are not."""
    one = chain((10, 50, 50, 10), [[40], [20], [60], [30]], [[[5]], [[5]], [[40]]], [[5], [5], [5], [5]])

    assert paying_stretches(one) == (range(1, 3),)


def test_two_stretches_may_meet() -> None:
    """Going from op 0 to op 1 in L1 takes longer than by DRAM."""
    one = chain((50, 50), [[10], [10]], [[[90]]], [[5], [5]])

    assert paying_stretches(one) == (range(1), range(1, 2))


def test_of_equally_fast_ways_the_one_with_fewer_stretches() -> None:
    one = chain((50, 50), [[10], [10]], [[[15]]], [[5], [5]])

    assert paying_stretches(one) == (range(2),)


def test_what_is_no_faster_stays_in_dram() -> None:
    assert paying_stretches(chain((15, 15), [[10], [10]], [[[15]]], [[5], [5]])) == ()


def test_where_no_stretch_may_begin() -> None:
    problem = ChainProblem(core_usage=((1,), (1,)), edges=(Edge(0, 1),))
    table = MaterialisedChain(problem, (1, 1), (EdgeTable((1,), direct_ns=((99,),)),), (entry_of(1),))

    class Oracle(TableOracle):
        """Every op may be entered."""

        def external(self, *_: int) -> int:
            return 1

        def external_reshards(self, *_: int) -> tuple[()]:
            return ()

        def external_ns(self, *_: int) -> int:
            return 10

    leave = ((1,), (1,))

    assert paying_stretches(cuttable(table, Oracle(table), (50, 50), leave)) == (range(1), range(1, 2))
    assert paying_stretches(cuttable(table, Oracle(table), (50, 50), leave, frozenset({1}))) == (range(1),)


def test_forks_cannot_be_cut() -> None:
    problem = ChainProblem(core_usage=((1,), (1,), (1,)), edges=(Edge(0, 1), Edge(0, 2)))
    table = MaterialisedChain(problem, (1, 1, 1), (EdgeTable((1,)), EdgeTable((1,))), (entry_of(1),))

    with pytest.raises(StateError, match="can be cut"):
        cuttable(table, TableOracle(table), (1, 1, 1), ((0,), (0,), (0,)))


# -- every way to cut --------------------------------------------------------------------------------------
def random_chain(seed: int) -> CuttableChain:
    random = Random(seed)
    counts = [random.randint(0, 3) for _ in range(random.randint(1, 5))]

    def cell(low: int, high: int) -> int:
        return INFEASIBLE if random.random() < 0.2 else random.randint(low, high)

    enter = [[cell(5, 25) for _ in range(n)] for n in counts]
    leave = [[random.randint(0, 8) for _ in range(n)] for n in counts]
    step = [
        np.array([[cell(2, 20) for _ in range(m)] for _ in range(n)], dtype=np.int64).reshape(n, m)
        for n, m in pairwise(counts)
    ]
    plain = tuple(random.randint(5, 25) for _ in counts)
    return CuttableChain(plain, costs(*enter), tuple(step), costs(*leave))


def least(one: CuttableChain, begin: int, end: int) -> int:
    """Least time of one stretch, by trying every choice of configs."""
    times = [INFEASIBLE]
    for configs in product(*[range(len(one.enter_ns[i])) for i in range(begin, end)]):
        parts = [one.enter_ns[begin][configs[0]], one.leave_ns[end - 1][configs[-1]]]
        parts += [one.step_ns[i][configs[i - begin]][configs[i + 1 - begin]] for i in range(begin, end - 1)]
        times.append(INFEASIBLE if INFEASIBLE in parts else int(sum(parts)))
    return min(times)


def ways(count: int) -> list[list[range]]:
    """Every set of disjoint stretches of a chain."""
    found: list[list[range]] = [[]]
    for begin in range(count):
        for end in range(begin + 1, count + 1):
            found += [[range(begin, end), *[range(r.start + end, r.stop + end) for r in w]] for w in ways(count - end)]
    return found


def total(one: CuttableChain, stretches: list[range]) -> int:
    inside = {i for stretch in stretches for i in stretch}
    parts = [least(one, s.start, s.stop) for s in stretches]
    return min(INFEASIBLE, sum(parts)) + sum(ns for i, ns in enumerate(one.plain_ns) if i not in inside)


@pytest.mark.parametrize("seed", range(150))
def test_no_other_way_to_cut_is_faster(seed: int) -> None:
    one = random_chain(seed)

    found = list(paying_stretches(one))

    best = min((total(one, way), len(way)) for way in ways(len(one.plain_ns)))
    assert (total(one, found), len(found)) == best
