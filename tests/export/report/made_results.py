"""Results that no policy made: as large as one likes, with names of any kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE
from optimizer.opmodel.base import Bound, CostPart
from optimizer.options import Options
from optimizer.result import ChainRecord, OpRecord, OptimizedGraph, Prediction, Role, Statement


@dataclass(frozen=True)
class MadeResult:
    """`ops` element-wise ops in a row, every tenth of which also reads what the one eight before it gives."""

    ops: int
    name: Callable[[int], str] = "op_{}".format

    def result(self) -> OptimizedGraph:
        b = GraphBuilder(self.name(0))
        values = [b.input("x", (1, 1, 64, 64))]
        for at in range(self.ops):
            if at % 10 == 9:
                values.append(b.op("ttnn.add", values[-1], values[-9], name=self.name(at)))
            else:
                values.append(b.op("ttnn.relu", values[-1], name=self.name(at)))
        graph = b.finish(values[-1])
        layouts = dict.fromkeys(graph.values, L1_TILE)
        layouts |= {values[0]: DRAM_TILE, values[-1]: DRAM_TILE}
        part = CostPart("eltwise", 900, 100, ((Bound.NOC, 800),), 0)
        predicted = Prediction(1000, 4096, 16384, 64, "noc", 0, 0, 500, 1000, 2000, (part,))
        records = {
            op.id: OpRecord(Role.COMPUTE, chain=self.name(at // 50), predicted=predicted, reason=self._reason(at))
            for at, op in enumerate(graph.ops())
        }
        chains = [ChainRecord(self.name(n), (), "failed", "none", self.name(n)) for n in range(2)]
        return OptimizedGraph(
            graph, layouts, records, DeviceSpec.preset("n150"), Options(), {"name": self.name(0)}, tuple(chains),
            stated=Statement(),
        )  # fmt: skip

    def _reason(self, at: int) -> dict[str, object]:
        others = [{"layout": "dram interleaved tile", "time_ns": 900}, {"layout": self.name(at), "time_ns": 1300}]
        excluded = [{"error": self.name(at), "count": 3}]
        return {"chosen": self.name(at), "dram_time_ns": 1200, "alternatives": others, "excluded": excluded}
