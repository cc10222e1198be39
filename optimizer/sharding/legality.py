"""What every op of a run may do: its legal layouts, expanded into configs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, replace

from optimizer.errors import DTypeError
from optimizer.ir.graph import Op, ValueKind
from optimizer.layouts.legal_op_configs import LegalConfigs, LegalOpConfigAnalysis, may_free_operand
from optimizer.layouts.legal_op_layouts import legal_op_layouts
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.overrides import Overrides
from optimizer.opmodel.pricing import OpPricer
from optimizer.process import logs

_log = logs.room("layouts")


@dataclass(frozen=True)
class Legality:
    """Legal layouts and LegalOpConfigAnalysis for the ops of one graph."""

    pricer: OpPricer
    """Who says what an op accepts; it holds the graph and its page layouts."""
    pools: LegalTensorLayoutAnalysis
    conv_weights: Mapping[str, str]
    """Conv op id -> element type that its weights are prepared into."""
    max_legal_layouts: int
    """Sharded layouts considered per op (option `max_legal_layouts`)."""
    optimization_level: int
    """0: DRAM, no op configs; 1: DRAM with op configs; 2: sharding (option `optimization_level`)."""

    def of(self, op: Op, overrides: Overrides) -> LegalConfigs:
        """What one op may do under these overrides, which need not be the user's."""
        output, graph, pages = overrides.output(op.id), self.pricer.graph, self.pricer.pages
        sharding = self.optimization_level == 2
        layouts = legal_op_layouts(graph, op, pages, self.pools, self.max_legal_layouts, sharding, output)
        use_configs, fixed = self.optimization_level > 0, overrides.conv2d_configs
        configs = LegalOpConfigAnalysis(graph, self.pricer, use_configs, fixed, self.conv_weights)
        with self.pricer.counted_apart() as refused:
            found = configs.apply(op, layouts, output)
        return replace(found, refused=refused.get(op.id, {}))

    def _check_rows(self, op: Op) -> None:
        """DTypeError if a tensor would lie in rows whose element type has tiles only. Weights are on the host first."""
        for value in map(self.pricer.graph.value, (*op.inputs, *op.outputs)):
            in_rows = self.pricer.pages.get(value.id) is PageLayout.ROW_MAJOR
            if in_rows and value.dtype.is_block_float and value.kind in (ValueKind.INPUT, ValueKind.ACTIVATION):
                raise DTypeError(
                    f"'{op.id}' ({op.op}) works on rows, and {value.dtype.value} of '{value.id}' has tiles only",
                    node=op.id,
                    alternatives=("bf16", "f32"),
                )

    def of_all(
        self,
        overrides: Overrides,
        poll: Callable[[], None] = lambda: None,
        known: MutableMapping[Hashable, LegalConfigs] | None = None,
    ) -> Mapping[str, LegalConfigs]:
        """Op id -> what it may do, for every op of a run; equal ops share theirs.

        `poll` is called for every op and may end the run. `known` is what equal ops of earlier runs may do, on the same
        board with the same OpModel; what is found now joins it.
        """
        overridden = set(overrides.op_ids)
        result: dict[str, LegalConfigs] = {}
        shared: dict[Hashable, LegalConfigs] = {}
        known = {} if known is None else known
        for op in self.pricer.graph.run_ops():
            poll()
            self._check_rows(op)
            own = op.id in overridden
            key = op.id if own else self._key(op)
            if key not in shared:
                if own or key not in known:
                    found = self.of(op, overrides)
                    if not own:
                        known[key] = found
                shared[key] = found if own else known[key]
                if _log.tells_debug:
                    self._tell(op, shared[key])
            result[op.id] = shared[key]
            self.pricer.rejections[op.id] = Counter(shared[key].refused)
        if _log.tells_info:
            candidates = sum(len(c.dram) + len(c.l1_interleaved) + len(c.sharded) for c in shared.values())
            _log.info("legal configs", ops=len(result), distinct=len(shared), candidates=candidates)
        return result

    def _tell(self, op: Op, legal: LegalConfigs) -> None:
        """Log how many ways an op has, and what was refused by the OpModel on the way."""
        _log.debug(
            "legal",
            op=op.id,
            call=op.op,
            sharded=len(legal.sharded),
            l1_interleaved=len(legal.l1_interleaved),
            dram=len(legal.dram),
            refused=dict(sorted(legal.refused.items())),
        )

    def _key(self, op: Op) -> Hashable:
        """Equal for ops with equal legal configs, in runs of any options; a conv also asks whether its input may be
        freed."""
        graph = self.pricer.graph
        results = tuple((graph.value(v).shape, graph.value(v).dtype) for v in op.outputs)
        freed = bool(op.inputs) and may_free_operand(graph, op)
        limits = (self.pricer.l1_limit_bytes, self.max_legal_layouts, self.optimization_level)
        return (self.pricer.signature(op), results, freed, self.conv_weights.get(op.id), limits)
