"""Does ShardSolver agree with CP-SAT and the exact DP on every chain of real graphs?

    python benchmarks/chain_agreement.py fixtures/onnx/*.onnx --boards n150 p150

Every chain that the DFSharding policy hands to ShardSolver (parts of failed chains included) is written out
and solved again by CP-SAT and by dynamic programming, for the same objective (most cores, then least time)
and under the same reshard rule. Prints chains, feasible ones, agreements and the first disagreements; exits 1 on any.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from optimizer.device import DeviceSpec
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import import_model, prepare
from optimizer.sharding.chains.chain_oracle import ChainOracle
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.dfsharding import DFShardingPolicy
from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import solve_chain_cpsat
from optimizer.solver.chains.chain_dp import solve_linear_chain
from optimizer.solver.chains.chain_problem import ChainInfeasible, ChainResult
from optimizer.solver.chains.materialise import materialise


class Comparison:
    """Counts over all chains seen."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.disagreements: list[str] = []

    def observe(self, chain: L1Chain, oracle: ChainOracle, solved: ChainResult) -> None:
        table = materialise(oracle.chain_problem(), oracle, modes=solved.modes)
        self.counts["chains"] += 1
        self.counts["feasible"] += not isinstance(solved, ChainInfeasible)
        for name, other in (
            ("cpsat", solve_chain_cpsat(table, ChainObjective.CORE_USAGE, tie_break=False)),
            ("dp", solve_linear_chain(table, ChainObjective.CORE_USAGE)),
        ):
            ours, theirs = _objective(solved), _objective(other)
            if ours == theirs:
                self.counts[f"agrees with {name}"] += 1
            else:
                self.disagreements.append(f"{chain.id} {chain.ops[:3]}: ShardSolver {ours}, {name} {theirs}")


def _objective(result: ChainResult) -> tuple[int, int | None] | None:
    """Core usage and time, None if infeasible."""
    return None if isinstance(result, ChainInfeasible) else (result.core_usage, result.time_ns)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--boards", nargs="+", default=["n150"])
    parsed = parser.parse_args(arguments)
    total = Comparison()
    for board in parsed.boards:
        for path in parsed.models:
            comparison = Comparison()
            options = Options(board=board)
            device = DeviceSpec.load(board)
            opmodel = CachedOpModel(create(options.opmodel, device, options.l1_small_bytes))
            problem = prepare(import_model(path, options), opmodel, options)
            DFShardingPolicy(observer=comparison.observe).run(problem)
            print(f"{path.stem:34s} {board:6s} {_line(comparison)}", flush=True)
            total.counts.update(comparison.counts)
            total.disagreements += [f"{path.stem} {board} {d}" for d in comparison.disagreements]
    print(f"{'all':34s} {'':6s} {_line(total)}")
    for line in total.disagreements[:20]:
        print(f"DISAGREES {line}")
    return 1 if total.disagreements else 0


def _line(comparison: Comparison) -> str:
    c = comparison.counts
    return (
        f"{c['chains']:5d} chains, {c['feasible']:5d} feasible, "
        f"{c['agrees with cpsat']:5d} agree with CP-SAT, {c['agrees with dp']:5d} with the DP"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
