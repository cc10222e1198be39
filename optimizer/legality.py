"""What every op of a run may do: its legal layouts, expanded into configs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from optimizer import logs
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.legal_op_configs import LegalConfigs, LegalOpConfigAnalysis, may_free_operand
from optimizer.layouts.legal_op_layouts import LegalOpLayoutAnalysis
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.overrides import Overrides
from optimizer.opmodel.pricing import OpPricer
from optimizer.options import Options
from optimizer.sharding.overriding import LegalOf

_log = logs.room("layouts")


def legal_configs(
    graph: Graph,
    pricer: OpPricer,
    overrides: Overrides,
    conv_weights: Mapping[str, str],
    legal_of: LegalOf,
    poll: Callable[[], None] = lambda: None,
) -> Mapping[str, LegalConfigs]:
    """LegalOpLayoutAnalysis and LegalOpConfigAnalysis for every op of a run; equal ops share theirs.

    `poll` is called for every op and may end the run.
    """
    overridden = set(overrides.op_ids)
    result: dict[str, LegalConfigs] = {}
    shared: dict[Hashable, LegalConfigs] = {}
    for op in graph.run_ops():
        poll()
        key = op.id if op.id in overridden else (_legal_key(graph, pricer, op), conv_weights.get(op.id))
        if key not in shared:
            shared[key] = legal_of(op, overrides)
            if _log.tells_debug:
                _tell(op, shared[key], pricer)
        result[op.id] = shared[key]
    if _log.tells_info:
        candidates = sum(len(c.dram) + len(c.l1_interleaved) + len(c.sharded) for c in shared.values())
        _log.info("legal configs", ops=len(result), distinct=len(shared), candidates=candidates)
    return result


def _tell(op: Op, legal: LegalConfigs, pricer: OpPricer) -> None:
    """Log how many ways an op has, and what was refused by the OpModel on the way."""
    refused: Mapping[str, int] = pricer.rejections.get(op.id, {})
    _log.debug(
        "legal",
        op=op.id,
        call=op.op,
        sharded=len(legal.sharded),
        l1_interleaved=len(legal.l1_interleaved),
        dram=len(legal.dram),
        refused=dict(sorted(refused.items())),
    )


def legal_analyses(
    graph: Graph,
    pages: dict[str, PageLayout],
    pools: LegalTensorLayoutAnalysis,
    pricer: OpPricer,
    options: Options,
    conv_weights: Mapping[str, str],
) -> LegalOf:
    """Answers what one op may do under given overrides."""
    layouts = LegalOpLayoutAnalysis(options.max_legal_layouts, sharding=options.optimization_level == 2)

    def legal_of(op: Op, overrides: Overrides) -> LegalConfigs:
        configs = LegalOpConfigAnalysis(options.optimization_level > 0, overrides.conv2d_configs, conv_weights)
        output = overrides.output(op.id)
        return configs.apply(graph, op, layouts.apply(graph, op, pages, pools, output), pricer, output)

    return legal_of


def _legal_key(graph: Graph, pricer: OpPricer, op: Op) -> Hashable:
    """Equal for ops with equal legal configs; a conv also asks whether its input may be freed."""
    results = tuple((graph.value(v).shape, graph.value(v).dtype) for v in op.outputs)
    return (pricer.signature(op), results, bool(op.inputs) and may_free_operand(graph, op))
