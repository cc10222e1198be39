"""Element types and fidelities as further ways to run an op: of each way in the graph's own types, those that are
faster or take less, with the error that they add.

    operands    as stored: the graph's type, or the block-float type that their producer may give
    weights     the graph's type, bfp8_b, bfp4_b (a convolution prepares its own: its config says which)
    result      what the operands' types give; where the call takes `dtype=`, either
    fidelity    that of the op's rule and those of fewer passes; sums of 16 bits where the rule has 32
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import ceil, log2
from typing import Any

from optimizer.ir.compute_config import COMPUTE, FIDELITIES
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Op, ValueKind
from optimizer.ir.opdef import CostClass, DTypeRule
from optimizer.ir.padding import spoils_blocks
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import PageLayout, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig, InPlaceConfig
from optimizer.layouts.precision import Precision
from optimizer.layouts.stated_compute import in0_block_w, stated_compute
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.pricing import OpPricer
from optimizer.options import Options
from optimizer.precision.budget import OpNoise
from optimizer.precision.noise import SOURCE_A_BITS, added_noise, rounding_noise, sharing_weights
from optimizer.precision.storing import cutting_noise

Layouts = tuple[TensorLayout, ...]
Way = tuple[Layouts, OpCandidate]
Ladder = tuple[Way, ...]
Types = tuple[DType | None, ...]
"""Per operand; None: the graph's own."""

STORED = (None, DType.BFP8_B)
"""Element types of results that are offered."""
WEIGHTS = (None, DType.BFP8_B, DType.BFP4_B)
"""Element types of weights that are offered."""
_FASTER = (CostClass.MATMUL, CostClass.CONV, CostClass.SDPA)
"""Classes whose time depends on the fidelity."""
NOISE_STEPS = 4
_WEIGHED = (CostClass.MATMUL, CostClass.CONV)
"""Classes of ops that multiply by weights."""
MIXED = 2
"""Up to this many operands that are no weights, their element types are mixed; else they are all alike."""


class PrecisionOptions:
    """The ways of the ops of one graph in other element types and fidelities; what the user fixes stays as it is."""

    def __init__(self, pricer: OpPricer, options: Options) -> None:
        self._pricer = pricer
        self._fixed_fidelity = options.math_fidelity is not None
        self._fixed_weights = options.weights_dtype is not None
        self._fixed_results = options.activations_dtype not in (None, DType.BF16.value)
        self._graph = pricer.graph
        self._returned = frozenset(pricer.graph.outputs)
        self._noises: dict[Hashable, OpNoise] = {}

    # -- what is offered -----------------------------------------------------------------------------
    def variants(
        self, op: Op, positions: Sequence[int], stored: Mapping[str, Types], operands: Layouts, candidate: OpCandidate
    ) -> Iterator[tuple[Ladder, ...]]:
        """One way to run an op in all element types and fidelities: per element types of operands and result a table,
        one ladder of fidelities per element type of the weights, from the most exact to the least.

        `positions` are the operands that are no weights, `stored` the element types that values may be read in.
        """
        weight = self._open_weight(op, operands)
        open_ = weight is not None or self._prepares(candidate)
        for types in self._of_operands(op, positions, stored):
            read = tuple(layout.typed(types.get(k)) for k, layout in enumerate(operands))
            for result in self._results(op, read, candidate):
                yield tuple(
                    tuple(self._rungs(op, read, candidate, result, weight, weights))
                    for weights in (WEIGHTS if open_ else (None,))
                )

    def _rungs(
        self, op: Op, read: Layouts, candidate: OpCandidate, result: DType, weight: int | None, weights: DType | None
    ) -> Iterator[Way]:
        """With these element types, in all compute configs."""
        if weight is not None:
            read = tuple(layout.typed(weights) if k == weight else layout for k, layout in enumerate(read))
        elif weights is not None:
            assert isinstance(candidate.config, Conv2dConfig)
            candidate = replace(candidate, config=replace(candidate.config, weights_dtype=weights.value))
        own = self._graph.value(op.outputs[0]).dtype
        stated = result if opdef(op.op).takes_dtype and result is not self._natural(op, read) else None
        typed = weights is not None or any(layout.dtype for layout in read)
        for number, compute in enumerate(self._computes(op, candidate)):
            precision = Precision(compute if number or typed else None, stated)
            output = candidate.output.typed(None if result is own else result)
            yield read, replace(candidate, output=output, precision=None if precision == Precision() else precision)

    def storable(self, value_id: str) -> bool:
        """Whether a result may be stored in blocks: computed on the board, in tiles, with padding that does not matter,
        and no output of the model."""
        value = self._graph.value(value_id)
        in_tiles = self._pricer.pages[value_id] is PageLayout.TILE
        own = value.kind is ValueKind.ACTIVATION and value.dtype is DType.BF16 and not self._fixed_results
        return own and in_tiles and value_id not in self._returned and not spoils_blocks(self._graph, value_id)

    def _of_operands(
        self, op: Op, positions: Sequence[int], stored: Mapping[str, Types]
    ) -> Iterator[Mapping[int, DType | None]]:
        values = list(dict.fromkeys(op.inputs[k] for k in positions))
        rows = [stored.get(v, (None,)) for v in values]
        if len(values) <= MIXED:
            chosen: Iterator[Types] = product(*rows)
        else:
            common = [dtype for dtype in STORED if all(dtype in row for row in rows)]
            chosen = ((dtype,) * len(values) for dtype in common)
        for types in chosen:
            by_value = dict(zip(values, types, strict=True))
            yield {k: by_value[op.inputs[k]] for k in positions}

    def _results(self, op: Op, read: Layouts, candidate: OpCandidate) -> Sequence[DType]:
        """Element types that the result may have with these operands."""
        row, own = opdef(op.op), self._graph.value(op.outputs[0]).dtype
        natural = self._natural(op, read)
        if natural is None:
            return ()
        found: Sequence[DType] = (natural,)
        if row.takes_dtype:
            found = [dtype or own for dtype in STORED] if self.storable(op.outputs[0]) else [own]
        elif natural is not own and not all(map(self.storable, op.outputs)):
            found = ()
        if isinstance(candidate.config, InPlaceConfig):
            found = [dtype for dtype in found if dtype is self._stored_in(op, read, candidate)]
        return found

    def _stored_in(self, op: Op, read: Layouts, candidate: OpCandidate) -> DType:
        assert isinstance(candidate.config, InPlaceConfig)
        k = candidate.config.operand
        return read[k].dtype or self._graph.value(op.inputs[k]).dtype

    def _natural(self, op: Op, read: Layouts) -> DType | None:
        """The element type of the result that nobody asks another of; None where these operands give none that fits."""
        row = opdef(op.op)
        plain = op if not row.takes_dtype else replace(op, attrs={k: v for k, v in op.attrs.items() if k != "dtype"})
        types = tuple(layout.dtype or self._graph.value(v).dtype for v, layout in zip(op.inputs, read, strict=True))
        found = row.infer_dtypes(plain, types, len(op.outputs))
        if row.dtype is DTypeRule.FIRST_INDEX and found[0] is not self._graph.value(op.outputs[0]).dtype:
            return None
        return found[0] if found else None

    def _open_weight(self, op: Op, operands: Layouts) -> int | None:
        """Position of a matmul's weight, if that may have another element type."""
        if (
            self._fixed_weights
            or opdef(op.op).cost_class is not CostClass.MATMUL
            or not self._pricer.is_weight(op.inputs[1])
        ):
            return None
        value = self._graph.value(op.inputs[1])
        tiles = operands[1].is_tile and not operands[1].is_host
        return 1 if tiles and value.dtype is DType.BF16 and op.inputs.count(op.inputs[1]) == 1 else None

    def _prepares(self, candidate: OpCandidate) -> bool:
        """Whether the op prepares its weights in an element type that its config names."""
        config = candidate.config
        return isinstance(config, Conv2dConfig) and config.weights_dtype == DType.BF16.value and not self._fixed_weights

    def _computes(self, op: Op, candidate: OpCandidate) -> Iterator[Attr]:
        """The compute config of the op's rule first, then those of fewer passes, and of narrower sums."""
        base = stated_compute(self._graph, op, in0_block_w(candidate.config))
        if base is None or COMPUTE in op.attrs or self._fixed_fidelity:
            yield base
            return
        stated: dict[str, Any] = dict(base)  # type: ignore[arg-type]
        row = opdef(op.op)
        spelled = list(FIDELITIES.values())
        upto = spelled.index(str(stated["fid"])) + 1 if row.cost_class in _FASTER else 0
        sums = [bool(stated["fp32"])]
        if row.cost_class is CostClass.MATMUL and sums[0]:
            sums.append(False)
        for wide in sums:
            for fidelity in reversed(spelled[:upto]) if upto else (stated["fid"],):
                yield tuple(sorted({**stated, "fid": fidelity, "fp32": wide}.items()))

    # -- what it costs -------------------------------------------------------------------------------
    def noise(self, op: Op, query: OpQuery, result: DType) -> OpNoise:
        """The errors that a way makes in its result and in its weights."""
        config = query.config
        prepared = config.weights_dtype if isinstance(config, Conv2dConfig) else None
        types = tuple(spec.dtype for spec in query.inputs)
        key = (op.id, types, query.attrs, in0_block_w(config), prepared, result)
        if key not in self._noises:
            self._noises[key] = self._added(op, _with_weights(query, prepared), result)
        return self._noises[key]

    def _added(self, op: Op, query: OpQuery, result: DType) -> OpNoise:
        noise = added_noise(query, result)
        of_result, of_weights = noise.variance + noise.gain**2, 0.0
        if opdef(op.op).cost_class in _WEIGHED and self._pricer.is_weight(op.inputs[1]):
            dtype = query.inputs[1].dtype
            stated: Any = dict(query.attr.get(COMPUTE) or ())  # type: ignore[arg-type]
            sharing = sharing_weights(query)
            cut = cutting_noise(dtype, SOURCE_A_BITS[str(stated.get("fid", "HiFi4"))], sharing)
            of_weights = cut.variance + (rounding_noise(dtype, sharing).variance if dtype.is_block_float else 0.0)
        return OpNoise(_rounded_up(of_result), _rounded_up(of_weights))


def _rounded_up(noise: float) -> float:
    """To the next of `NOISE_STEPS` steps per factor of two: ways that are almost as exact then compare."""
    return 0.0 if noise <= 0.0 else 2.0 ** (ceil(NOISE_STEPS * log2(noise) - 1e-9) / NOISE_STEPS)


def _with_weights(query: OpQuery, dtype: str | None) -> OpQuery:
    """A convolution's query with its weights in the element type that it prepares them into."""
    if dtype is None or query.inputs[1].dtype.value == dtype:
        return query
    weight = query.inputs[1]
    typed = TensorSpec(weight.shape, DType(dtype), weight.layout)
    return replace(query, inputs=(query.inputs[0], typed, *query.inputs[2:]))
