"""Write convolutions and what surrounds them in TTNN's form [1, 1, N*H*W, C].

One forward sweep. `nchw.*` ops become TTNN ops on flat twins; elementwise ops, concats, norms, linears
and channel slices follow into the flat domain, so that permutes remain only where the graph enters or
leaves it.
"""

from __future__ import annotations

from functools import partial

from optimizer.importers.passes import channels_last_rules as rules
from optimizer.importers.passes.rewriting import Pass, finish
from optimizer.importers.passes.twins import Twins
from optimizer.ir.graph import Graph


@partial(Pass, "channels-last")
def channels_last(graph: Graph) -> int:
    """NCHW to [1, 1, N*H*W, C]; counts the ops that now run channels-last."""
    twins = Twins(graph)
    rewrites = 0
    for op in graph.ops():
        rule = rules.RULES.get(op.op)
        if rule is not None and rule(twins, op):
            rewrites += 1
            continue
        for value_id in op.inputs:
            twins.materialise(value_id)
    for value_id in graph.outputs:
        twins.materialise(value_id)
    return finish(graph, rewrites)
