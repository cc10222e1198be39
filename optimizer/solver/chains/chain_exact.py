"""The exact solver that fits a chain: dynamic programming for linear chains, CP-SAT for all others.

Both give the same choice wherever both apply (the lexicographically smallest optimum); the DP takes
milliseconds where CP-SAT takes seconds, and does not load ortools.
"""

from __future__ import annotations

from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import DEFAULT_DETERMINISTIC_TIME, solve_chain_cpsat
from optimizer.solver.chains.chain_dp import solve_linear_chain
from optimizer.solver.chains.chain_problem import ChainResult
from optimizer.solver.chains.materialise import MaterialisedChain


def solve_chain_exact(
    chain: MaterialisedChain,
    objective: ChainObjective,
    *,
    max_deterministic_time: float = DEFAULT_DETERMINISTIC_TIME,
) -> ChainResult:
    """Optimal choice of any chain; only chains that are not linear can hit the limit."""
    if chain.problem.is_linear:
        return solve_linear_chain(chain, objective)
    return solve_chain_cpsat(chain, objective, max_deterministic_time=max_deterministic_time)
