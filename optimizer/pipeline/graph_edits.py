"""The graph as the options change it: what computes the model, before anything is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from optimizer.importers.passes.fed_inputs import feed_channels_last
from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.input_overrides import with_overridden_inputs
from optimizer.layouts.overrides import parse_overrides
from optimizer.layouts.scalar_dtypes import apply_dtype_overrides
from optimizer.layouts.weight_dtypes import apply_block_weights
from optimizer.pipeline.work import Stage, Work


@dataclass(frozen=True)
class Prune(Stage):
    """Copies the graph without the ops that no output needs."""

    name: ClassVar[str] = "prune"
    takes: ClassVar[tuple[str, ...]] = ("imported",)
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    def apply(self, work: Work) -> None:
        graph = work.imported.copy()
        graph.prune()
        work.graph = graph


@dataclass(frozen=True)
class FeedInputs(Stage):
    """Leaves it to the caller to move the channels of images last, if that is asked for."""

    name: ClassVar[str] = "fed-inputs"
    takes: ClassVar[tuple[str, ...]] = ("graph",)
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    channels_last_inputs: bool

    def apply(self, work: Work) -> None:
        graph = work.graph
        if self.channels_last_inputs:
            feed_channels_last(graph)
        work.graph = graph


@dataclass(frozen=True)
class InputOverrides(Stage):
    """Gives graph inputs that an override names an op of their own, which the override then is about."""

    name: ClassVar[str] = "input-overrides"
    takes: ClassVar[tuple[str, ...]] = ("graph",)
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    override_output_layout: str = ""

    def apply(self, work: Work) -> None:
        graph = work.graph
        with_overridden_inputs(graph, self.override_output_layout)
        work.graph = graph


@dataclass(frozen=True)
class ParseOverrides(Stage):
    """Finds the ops that the user's overrides name."""

    name: ClassVar[str] = "overrides"
    takes: ClassVar[tuple[str, ...]] = ("graph",)
    gives: ClassVar[tuple[str, ...]] = ("overrides",)

    override_output_layout: str = ""
    override_conv2d_config: str = ""
    insert_memreconfig: str = ""

    def apply(self, work: Work) -> None:
        texts = (self.override_output_layout, self.override_conv2d_config, self.insert_memreconfig)
        work.overrides = parse_overrides(work.graph, *texts)


@dataclass(frozen=True)
class DtypeOverrides(Stage):
    """Casts the results whose element type an override fixes."""

    name: ClassVar[str] = "dtype-overrides"
    takes: ClassVar[tuple[str, ...]] = ("graph", "overrides")
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    def apply(self, work: Work) -> None:
        work.graph = apply_dtype_overrides(work.graph, work.overrides)


@dataclass(frozen=True)
class WeightDtypes(Stage):
    """Gives the weights of matmuls and convolutions their block-float type."""

    name: ClassVar[str] = "weight-dtypes"
    takes: ClassVar[tuple[str, ...]] = ("graph",)
    gives: ClassVar[tuple[str, ...]] = ("graph", "conv_weights")

    weights_dtype: str | None
    activations_dtype: str | None

    def apply(self, work: Work) -> None:
        graph = work.graph
        work.conv_weights = apply_block_weights(graph, self._block())
        work.graph = graph

    def _block(self) -> DType | None:
        """The block-float type that matmul and conv weights have, if any."""
        wanted = self.weights_dtype or self.activations_dtype
        return DType(wanted) if wanted is not None and DType(wanted).is_block_float else None


@dataclass(frozen=True)
class MathFidelity(Stage):
    """Gives every op that has a math fidelity (matmuls and convolutions) the user's."""

    name: ClassVar[str] = "math-fidelity"
    takes: ClassVar[tuple[str, ...]] = ("graph",)
    gives: ClassVar[tuple[str, ...]] = ("graph",)

    math_fidelity: str | None

    def apply(self, work: Work) -> None:
        graph = work.graph
        if self.math_fidelity is not None:
            for op in graph.run_ops():
                if "math_fidelity" in opdef(op.op).attrs:
                    graph.replace_op(op.with_attrs(math_fidelity=self.math_fidelity))
        work.graph = graph
