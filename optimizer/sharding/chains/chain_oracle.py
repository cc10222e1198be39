"""`ChainOracle`: answers the chain solvers' compatibility and time questions with OpModel calls.

Config i of a chain position is the i-th L1 sharded candidate of that op; reshard layout ids index the pool
of the operand's tensor type. Operands that come from outside the chain are read from DRAM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.sharding.base import Accepted, PolicyInput
from optimizer.sharding.overriding import laid_out_alike
from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.chain_problem import ChainProblem, Edge, ReshardOption


class ChainOracle:
    """Implements `solver.chains.chain_problem.EdgeOracle` for one chain."""

    def __init__(
        self, problem: PolicyInput, op_ids: Sequence[str], preferred: TensorMemoryLayout | None = None
    ) -> None:
        """`preferred` is the only sharding that the last op's result may have; None allows all."""
        self._problem = problem
        self._pricer = problem.pricer
        self.ops: tuple[Op, ...] = tuple(problem.graph.op(op_id) for op_id in op_ids)
        rows = [problem.legal[op_id].sharded for op_id in op_ids]
        if preferred is not None:
            rows[-1] = tuple(c for c in rows[-1] if c.output.memory_layout is preferred)
        self.candidates: tuple[tuple[OpCandidate, ...], ...] = tuple(rows)
        self._defaults = tuple(self._pricer.default_operands(op) for op in self.ops)
        kinds = (*(None for _ in rows[1:]), preferred)
        self._known = [self._memo(op, kind) for op, kind in zip(self.ops, kinds, strict=True)]
        self._accepted: list[dict[TensorLayout, int]] = [{} for _ in rows]
        self._reshard_layouts: dict[int, tuple[TensorLayout, ...]] = {}
        self._times: dict[tuple[int, TensorLayout, int], int] = {}

    def chain_problem(self) -> ChainProblem:
        """The chain in plain integers. Operand 0 of every op but the first comes from the op before it."""
        edges = tuple(Edge(i - 1, i) for i in range(1, len(self.ops)))
        forced = [
            e for e, edge in enumerate(edges) if 0 in self._problem.forced_reshards.get(self.ops[edge.consumer].id, ())
        ]
        entry_forced = 0 in self._problem.forced_reshards.get(self.ops[0].id, ())
        last = len(self.ops) - 1
        return ChainProblem(
            core_usage=tuple(tuple(c.output.num_shard_cores for c in row) for row in self.candidates),
            edges=edges,
            tie_rank=tuple(tuple(_tie_rank(c) for c in row) for row in self.candidates),
            exit_ns=tuple(self.leave_ns(i) if i == last else (0,) * len(row) for i, row in enumerate(self.candidates)),
            always_reshard_entry=(0,) if entry_forced else (),
            forced_reshards=tuple(forced),
        )

    # -- compatibility -----------------------------------------------------------------------------
    def external(self, op: int, consumer_mask: int) -> int:
        """Configs that accept operand 0 from DRAM and produce exactly their layout."""
        operands = self._defaults[op]
        mask = 0
        for i in indices_of(consumer_mask):
            if self._produces(op, operands, self.candidates[op][i]):
                mask |= 1 << i
        return mask

    def external_reshards(self, op: int, consumer_mask: int) -> Sequence[ReshardOption]:
        """Sharded layouts to which operand 0 may be brought from DRAM before the chain starts."""
        source = self._defaults[op][0]
        value_id = self.ops[op].inputs[0]
        options = []
        for layout_id, layout in enumerate(self._layouts(op)):
            enables = self._accepts(op, layout) & consumer_mask & self._as_demanded(op, layout)
            if enables and self._pricer.copy_accepted(value_id, source, layout):
                options.append(ReshardOption(layout_id, enables))
        return options

    def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
        """Per producer config: the consumer configs that accept its output layout as it is."""
        self._problem.poll()
        rows = [0] * len(self.candidates[edge.producer])
        for p in indices_of(producer_mask):
            rows[p] = self._accepts(edge.consumer, self.candidates[edge.producer][p].output) & consumer_mask
        return rows

    def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
        """Sharded layouts that may be inserted on an edge, with the producers they can be copied from."""
        self._problem.poll()
        value_id = self.ops[edge.consumer].inputs[edge.operand]
        sources = [(p, self.candidates[edge.producer][p].output) for p in indices_of(producer_mask)]
        options = []
        for layout_id, layout in enumerate(self._layouts(edge.consumer)):
            enables = self._accepts(edge.consumer, layout) & consumer_mask & self._as_demanded(edge.consumer, layout)
            if not enables:
                continue
            producers = 0
            for p, source in sources:
                if source != layout and self._pricer.copy_accepted(value_id, source, layout):
                    producers |= 1 << p
            if producers:
                options.append(ReshardOption(layout_id, enables, producers))
        return options

    # -- time --------------------------------------------------------------------------------------
    def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
        self._problem.poll()
        layout = self.candidates[edge.producer][producer_config].output
        return self._op_ns(edge.consumer, layout, consumer_config)

    def reshard_ns(self, edge: Edge, producer_config: int, layout_id: int) -> int:
        value_id = self.ops[edge.consumer].inputs[edge.operand]
        source = self.candidates[edge.producer][producer_config].output
        return self._pricer.copy_ns(value_id, source, self.reshard_layout(edge.consumer, layout_id))

    def resharded_ns(self, edge: Edge, layout_id: int, consumer_config: int) -> int:
        return self._op_ns(edge.consumer, self.reshard_layout(edge.consumer, layout_id), consumer_config)

    def external_ns(self, op: int, config: int) -> int:
        return self._op_ns(op, self._defaults[op][0], config)

    def external_reshard_ns(self, op: int, layout_id: int, config: int) -> int:
        layout = self.reshard_layout(op, layout_id)
        copy = self._pricer.copy_ns(self.ops[op].inputs[0], self._defaults[op][0], layout)
        return copy + self._op_ns(op, layout, config)

    def leave_ns(self, op: int) -> tuple[int, ...]:
        """Per config: time of the spill of an op's result."""
        value = self._problem.graph.value(self.ops[op].outputs[0])
        plain = self._pricer.default_layout(value)
        return tuple(self._pricer.copy_ns(value.id, c.output, plain) for c in self.candidates[op])

    def time_with(self, op: int, operand0: TensorLayout, config: int) -> int | None:
        """Time of an op under a config with this operand 0; None if it does not accept that."""
        candidate = self.candidates[op][config]
        accepted = self._produces(op, self.operands(op, operand0), candidate)
        return self._op_ns(op, operand0, config) if accepted else None

    # -- what the policy needs to write the answer down ----------------------------------------------
    def reshard_layout(self, op: int, layout_id: int) -> TensorLayout:
        """The layout behind an id of `reshards` or `external_reshards`, for operand 0 of an op."""
        return self._layouts(op)[layout_id]

    def default_operand0(self, op: int) -> TensorLayout:
        return self._defaults[op][0]

    def operands(self, op: int, operand0: TensorLayout) -> tuple[TensorLayout, ...]:
        """All operand layouts of an op whose operand 0 has the given layout."""
        return (operand0, *self._defaults[op][1:])

    # -- OpModel -----------------------------------------------------------------------------------
    def _memo(self, op: Op, preferred: TensorMemoryLayout | None) -> dict[TensorLayout, Accepted]:
        """What is accepted by operand-0 layout, shared by all ops that ask the same questions.

        Ops with equal legal configs share one tuple of them (`PolicyInput.legal` holds it), so its id will do.
        """
        key = (self._pricer.signature(op), id(self._problem.legal[op.id].sharded), preferred)
        return self._problem.acceptance.setdefault(key, {})

    def _layouts(self, op: int) -> tuple[TensorLayout, ...]:
        if op not in self._reshard_layouts:
            value = self._problem.graph.value(self.ops[op].inputs[0])
            pool = self._problem.pools.pool(value.shape, value.dtype, self._pricer.pages[value.id])
            self._reshard_layouts[op] = pool.sharded[: self._problem.options.max_legal_layouts]
        return self._reshard_layouts[op]

    def _accepts(self, op: int, layout: TensorLayout) -> int:
        """Configs of an op that are valid, and produce their layout, with operand 0 in a sharded layout.

        What the others are refused for counts as this op's, whoever asked first.
        """
        masks, known = self._accepted[op], self._known[op]
        if layout not in masks:
            op_id = self.ops[op].id
            if layout not in known:
                with self._pricer.counted_apart() as refused:
                    mask = self._ask(op, layout)
                known[layout] = Accepted(mask, refused.get(op_id, Counter()))
            self._pricer.rejections.setdefault(op_id, Counter()).update(known[layout].refused)
            masks[layout] = known[layout].mask
        return masks[layout]

    def _as_demanded(self, op: int, copy: TensorLayout) -> int:
        """Configs whose result is laid out like a copy of operand 0, if the user wants that copy; else all."""
        row = self.candidates[op]
        if 0 not in self._problem.forced_reshards.get(self.ops[op].id, ()):
            return (1 << len(row)) - 1
        return sum(1 << i for i, c in enumerate(row) if laid_out_alike(copy, c.output))

    def _ask(self, op: int, layout: TensorLayout) -> int:
        operands = self.operands(op, layout)
        follow = self._pricer.followed(self.ops[op], operands) if self._has_plain(op) else None
        mask = 0
        for i, candidate in enumerate(self.candidates[op]):
            if candidate.config is None and candidate.output != follow:
                continue
            differs = candidate.output.memory_layout is not layout.memory_layout
            if differs and opdef(self.ops[op].op).sharding_follows_operand:  # need not be asked
                continue
            if self._produces(op, operands, candidate):
                mask |= 1 << i
        return mask

    def _has_plain(self, op: int) -> bool:
        return any(c.config is None for c in self.candidates[op])

    def _produces(self, op: int, operands: Sequence[TensorLayout], candidate: OpCandidate) -> bool:
        produced = self._pricer.produced(self.ops[op], operands, candidate.config, candidate.request)
        return produced == candidate.output

    def _op_ns(self, op: int, operand0: TensorLayout, config: int) -> int:
        key = (op, operand0, config)
        if key not in self._times:
            candidate, operands = self.candidates[op][config], self.operands(op, operand0)
            self._times[key] = self._pricer.cost(self.ops[op], operands, candidate.config, candidate.request).time_ns
        return self._times[key]


def _tie_rank(candidate: OpCandidate) -> int:
    """Among equal core counts: height, then width, then block (tt-mlir prefers 'not block')."""
    order = {"height_sharded": 0, "width_sharded": 1, "block_sharded": 2}
    return order[candidate.output.memory_layout.value]
