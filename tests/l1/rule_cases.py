"""Small plans by hand, each around one rule of L1: what `Run`, the verifier and tt-metal are asked about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.legal_op_configs import LegalConfigs, OpCandidate
from optimizer.layouts.memory_config import L1_TILE
from optimizer.layouts.op_config import Conv2dConfig, InPlaceConfig
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.result import OptimizedGraph
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.transform.apply import ApplyPlan

N150 = DeviceSpec.preset("n150")
OPTIONS = Options.from_mapping({"board": "n150", "policy": "global", "tensor_l1_usage_cap": 1.0})

UNIT_BYTES = 2048
"""A filler's unit: one tile per core."""

Pick = Callable[[LegalConfigs], OpCandidate]
"""What an op gives, out of what is legal."""


def dram(legal: LegalConfigs) -> OpCandidate:
    return legal.dram[0]


def l1(legal: LegalConfigs) -> OpCandidate:
    """L1 interleaved."""
    return legal.l1_interleaved[0]


def shards(*grid_yx: int) -> Pick:
    """Height shards on this grid; a convolution frees its operand."""

    def pick(legal: LegalConfigs) -> OpCandidate:
        found = (c for c in legal.sharded if c.output.shard_spec is not None)
        return next(c for c in found if c.output.shard_spec.grid_yx == grid_yx and _frees(c))  # type: ignore[union-attr]

    return pick


def _frees(candidate: OpCandidate) -> bool:
    return not isinstance(candidate.config, Conv2dConfig) or candidate.config.deallocate_activation


def in_place(legal: LegalConfigs) -> OpCandidate:
    """L1 interleaved, written into operand 0."""
    return replace(legal.l1_interleaved[0], config=InPlaceConfig(0))


@dataclass(frozen=True)
class Case:
    """A graph and what every op of it gives; ops read what is there."""

    graph: Graph
    gives: Mapping[str, Pick]
    weights: tuple[str, ...] = ()
    """Weights that are read from L1."""

    def problem(self) -> PolicyInput:
        return prepare(self.graph, CachedOpModel(create("analytical", N150, OPTIONS.l1_small_bytes)), OPTIONS)

    def plan(self, problem: PolicyInput) -> Plan:
        """The ops in the order of the graph."""
        decisions: dict[str, OpDecision] = {}
        graph, pricer = problem.graph, problem.pricer
        made = {}
        for op in graph.run_ops():
            operands = list(pricer.default_operands(op))
            for k, v in enumerate(op.inputs):
                operands[k] = made.get(v, L1_TILE if v in self.weights else operands[k])
            decisions[op.id] = OpDecision(self.gives.get(op.id, dram)(problem.legal[op.id]), tuple(operands))
            for v in op.outputs:
                made[v] = pricer.result_layout(op, v, decisions[op.id].candidate.output)
        return Plan(tuple(decisions), decisions)

    def result(self, problem: PolicyInput) -> OptimizedGraph:
        applied = ApplyPlan(problem.graph, problem.pricer.pages, self.plan(problem)).apply()
        return OptimizedGraph(
            applied.graph, applied.layouts, applied.records, N150, OPTIONS, {"name": "case", "sha256": None}
        )


def filler(b: GraphBuilder, name: str, units: int) -> str:
    """A value of so many units per core in L1 interleaved."""
    return b.op("ttnn.relu", b.input(f"in_{name}", (1, 1, 2048, 32 * units)), name=name)


def beside(units: int) -> Case:
    """A matmul whose operand is in L1 beside a value that is read later."""
    b = GraphBuilder("beside")
    held = filler(b, "held", units)
    x = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 512)), name="x0")
    y = b.op("ttnn.softmax", x, name="y", dim=-1)
    return Case(b.finish(y, b.op("ttnn.relu", held, name="late")), {"held": l1, "x0": l1, "y": l1})


def convolution(hole: int, units: int) -> Case:
    """A convolution with a halo below a hole of `hole` units, beside a value that is read later."""
    b = GraphBuilder("holes")
    x = b.op("ttnn.relu", b.input("x", (1, 1, 3136, 64)), name="x0")
    gone, held = filler(b, "gone", hole), filler(b, "held", units)
    first = b.op("ttnn.relu", gone, name="early")
    image = {"batch_size": 1, "input_height": 56, "input_width": 56, "in_channels": 64, "out_channels": 256}
    y = b.op(
        "ttnn.conv2d", x, b.parameter("w", (256, 64, 3, 3)), name="y", kernel_size=(3, 3), padding=(1, 1, 1, 1), **image
    )
    gives = {"x0": shards(49, 1), "gone": l1, "held": l1, "y": shards(49, 1)}
    return Case(b.finish(y, first, b.op("ttnn.relu", held, name="late")), gives)


def written_over(units: int) -> Case:
    """An addition that writes into its operand, beside a value that is read later."""
    b = GraphBuilder("in place")
    held = filler(b, "held", units)
    x = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 4096)), name="x0")
    y = b.op("ttnn.gelu", x, name="y")
    z = b.op("ttnn.relu", y, name="z")
    return Case(b.finish(z, b.op("ttnn.relu", held, name="late")), {"held": l1, "x0": l1, "y": in_place})


def viewed(units: int) -> Case:
    """A reshape that is a view, beside a value that is read later."""
    b = GraphBuilder("view")
    held = filler(b, "held", units)
    x = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 4096)), name="x0")
    y = b.op("ttnn.reshape", x, name="y", shape=(1, 2, 1024, 4096))
    z = b.op("ttnn.relu", y, name="z")
    return Case(b.finish(z, b.op("ttnn.relu", held, name="late")), {"held": l1, "x0": l1, "y": l1})


def viewed_rows(units: int) -> Case:
    """A reshape of rows that is a view, beside a value that is read later."""
    b = GraphBuilder("rows")
    held = filler(b, "held", units)
    x = b.op("ttnn.upsample", b.input("x", (1, 64, 64, 512)), name="x0", scale_factor=(2, 2))
    y = b.op("ttnn.reshape", x, name="y", shape=(1, 64, 256, 512))
    z = b.op("ttnn.upsample", y, name="z", scale_factor=(2, 2))
    return Case(b.finish(z, b.op("ttnn.relu", held, name="late")), {"held": l1, "x0": l1, "y": l1})


def weighted(units: int) -> Case:
    """A product with a weight in L1, beside a value that is read later."""
    b = GraphBuilder("weight")
    held = filler(b, "held", units)
    x = b.op("ttnn.multiply", b.input("x", (1, 1, 2048, 512)), b.parameter("w", (1, 1, 2048, 512)), name="x0")
    return Case(b.finish(x, b.op("ttnn.relu", held, name="late")), {"held": l1, "x0": l1}, ("w",))


def split(units: int) -> Case:
    """A split with its results in L1, beside a value that is read later."""
    b = GraphBuilder("split")
    held = filler(b, "held", units)
    x = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 2048)), name="x0")
    one, other = b.ops("ttnn.split", x, name="y", sizes=(1024, 1024), dim=-1)
    z = b.op("ttnn.add", one, other, name="z")
    return Case(b.finish(z, b.op("ttnn.relu", held, name="late")), {"held": l1, "y": l1})
