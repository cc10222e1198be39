"""LegalOpConfigAnalysis: an op's legal layouts times its op-specific parameters.

A candidate is a layout of the result together with the config and the `memory_config=` argument that give
it. Convs choose their own grid, so their candidates are what the op says it produces for each shard layout
and activation block height; matmuls and attention get program configs; sharded norms get theirs; other ops have no
parameters, and their candidates are their legal layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from optimizer.errors import OptionError
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import ConfigFamily, CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.acceptance import OpAcceptance
from optimizer.layouts.attention_chunks import chunk_configs
from optimizer.layouts.conv_configs import doubled
from optimizer.layouts.matmul_configs import interleaved_matmul_configs, largest_divisor, matmul_program_configs
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.memory_config import interleaved as interleaved_in
from optimizer.layouts.nearest import nearest
from optimizer.layouts.op_config import Conv2dConfig, LayerNormShardedMultiCoreProgramConfig, OpConfig
from optimizer.layouts.overrides import LayoutOverride, spelled
from optimizer.layouts.precision import Precision
from optimizer.layouts.stated_compute import sums_in_f32
from optimizer.layouts.tiling import TILE, ceil_div, physical_shape

ACT_BLOCK_H_OVERRIDES = (0, 64, 32)
"""Rows of an activation block to offer: the whole shard first (fastest), then less L1."""

SHOWN_LAYOUTS = 6
"""Layouts that an error names."""
_CONV_SHARDINGS = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
)


@dataclass(frozen=True)
class OpCandidate:
    """One way to run an op."""

    output: TensorLayout
    """Layout of the op's first result."""
    config: OpConfig | None = None
    request: MemoryConfig | None = None
    """The `memory_config=` argument; None passes none."""
    precision: Precision | None = None
    """None: as the graph states it."""

    def of(self, op: Op) -> Op:
        """The op with the attributes that its precision gives it."""
        return op if self.precision is None else self.precision.applied(op)


@dataclass(frozen=True)
class LegalConfigs:
    """All candidates of one op."""

    dram: tuple[OpCandidate, ...]
    """Candidates with a DRAM interleaved result, preferred first; never empty."""
    l1_interleaved: tuple[OpCandidate, ...] = ()
    sharded: tuple[OpCandidate, ...] = ()
    """Candidates with an L1 sharded result, most cores first."""
    forced: bool = False
    """An override excludes the DRAM candidates from the choice."""
    programmed: tuple[OpCandidate, ...] = ()
    """Candidates with an interleaved result, in DRAM or L1, and a program config where the others leave it to TTNN."""
    tuned: tuple[OpCandidate, ...] = ()
    """Candidates with results as those above and configs that only the exact search tries: convolutions' knobs."""
    by_room: bool = False
    """What TTNN chooses where it is given no program config depends on the L1 that is free: a matmul's."""
    refused: Mapping[str, int] = field(default_factory=dict, compare=False)
    """How often the OpModel refused what was tried, by message."""


@dataclass(frozen=True)
class LegalOpConfigAnalysis:
    """Expands layouts into candidates."""

    graph: Graph
    accept: OpAcceptance
    use_op_configs: bool = True
    """False leaves every config to TTNN (optimization level 0)."""
    conv2d_overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Op id -> Conv2dConfig fields fixed by the user."""
    conv_weights: Mapping[str, str] = field(default_factory=dict)
    """Conv op id -> element type that its weights are prepared into."""

    def apply(self, op: Op, layouts: Sequence[TensorLayout], override: LayoutOverride | None = None) -> LegalConfigs:
        """Candidates of one op from its legal layouts (sharded ones most cores first).

        OptionError if the op gives no layout that the override allows.
        """
        configured = self.use_op_configs or op.id in self.conv2d_overrides
        family = opdef(op.op).config if configured else None
        given = list(dict.fromkeys(_EXPANSIONS.get(family, LegalOpConfigAnalysis._plain)(self, op, layouts)))
        candidates = [c for c in given if override is None or override.allows(c.output)]
        dram = [c for c in candidates if c.output.is_dram]
        interleaved = [c for c in candidates if c.output.is_l1 and not c.output.is_sharded]
        sharded = [c for c in candidates if c.output.is_l1 and c.output.is_sharded]
        forced = not dram
        if forced and not interleaved and not sharded:
            asked = override or LayoutOverride()
            page = layouts[0].page_layout
            others = [c.output for c in given] or [
                interleaved_in(place, page) for place in (BufferType.DRAM, BufferType.L1)
            ]
            raise OptionError(
                f"override-output-layout: {op.op} cannot give {asked.describe()}: {_why_not(op, given, layouts)}",
                node=op.id,
                alternatives=nearest(asked, others),
            )
        if forced:
            page = layouts[0].page_layout
            memory = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)
            dram = list(self._dram(op, TensorLayout(page, memory)))
        programs = self._programs(op, layouts[0].page_layout) if configured else ()
        found = tuple(dict.fromkeys(self._tuned(op, dram, sharded))) if configured and _is_conv(op) else ()
        programmed, tuned = (
            tuple(c for c in row if override is None or override.allows(c.output)) for row in (tuple(programs), found)
        )
        by_room = bool(programmed) and opdef(op.op).config is ConfigFamily.MATMUL
        return LegalConfigs(tuple(dram), tuple(interleaved), tuple(sharded), forced, programmed, tuned, by_room)

    def _tuned(self, op: Op, dram: Sequence[OpCandidate], sharded: Sequence[OpCandidate]) -> Iterator[OpCandidate]:
        """A convolution's second buffers, for sharded results and from DRAM to DRAM."""
        fixed = self.conv2d_overrides.get(op.id, {})
        given = {c.config for c in (*dram, *sharded)}
        for candidate in (*sharded, *dram):
            config = candidate.config
            assert isinstance(config, Conv2dConfig)
            for variant in (config, *doubled(op, config)):
                variant = replace(variant, **fixed)
                if variant not in given:
                    yield replace(candidate, config=variant)

    def _dram(self, op: Op, layout: TensorLayout) -> Iterator[OpCandidate]:
        """Ways to a DRAM result, preferred first: a conv may need smaller activation blocks to fit."""
        if _is_conv(op) and (self.use_op_configs or op.id in self.conv2d_overrides):
            for act_block_h in ACT_BLOCK_H_OVERRIDES:
                config = self._conv_config(op, None, act_block_h, slice_="auto")
                yield OpCandidate(layout, config, layout.memory)
        else:
            yield OpCandidate(layout, None, layout.memory)

    def _conv_config(
        self, op: Op, shard_layout: TensorMemoryLayout | None, act_block_h: int, slice_: str
    ) -> Conv2dConfig:
        """A conv config with the user's fixed fields on top."""
        config = Conv2dConfig(
            weights_dtype=self.conv_weights.get(op.id) or self.graph.value(op.inputs[1]).dtype.value,
            activation=op.attrs.get("activation") or None,  # type: ignore[arg-type]
            deallocate_activation=slice_ == "l1" and may_free_operand(self.graph, op),
            act_block_h_override=act_block_h,
            shard_layout=None if shard_layout is None else shard_layout.value,
            slice=slice_,
        )
        return replace(config, **self.conv2d_overrides.get(op.id, {}))

    # -- layouts and configs by family of ops ------------------------------------------------------------
    def _plain(self, _op: Op, layouts: Sequence[TensorLayout]) -> Iterator[OpCandidate]:
        """No parameters: the legal layouts themselves."""
        for layout in layouts:
            yield OpCandidate(layout, None, layout.memory)

    def _matmul(self, op: Op, layouts: Sequence[TensorLayout]) -> Iterator[OpCandidate]:
        """Program configs for sharded results; L1 interleaved results only if the user wants them.

        An L1 interleaved matmul result falls to a generic kernel on few cores (tt-mlir #7702), and a batched
        second operand has no program config for sharded results.
        """
        a, b = self.graph.value(op.inputs[0]), self.graph.value(op.inputs[1])
        batched = any(d != 1 for d in b.shape[:-2])
        transposed = bool(op.attrs.get("transpose_a"))
        k = a.shape[-2] if transposed else a.shape[-1]
        activation = op.attrs.get("activation") or None
        fp32 = partial(sums_in_f32, self.graph, op)
        for layout in layouts:
            if not layout.is_sharded:
                if layout.is_dram or not any(other.is_dram for other in layouts):
                    yield OpCandidate(layout, None, layout.memory)
            elif not batched and not transposed:
                for config in matmul_program_configs(layout, ceil_div(k, TILE), self.accept.grid_yx, fp32, activation):  # type: ignore[arg-type]
                    yield OpCandidate(layout, config, layout.memory)

    def _conv(self, op: Op, layouts: Sequence[TensorLayout]) -> Iterator[OpCandidate]:
        """DRAM through TTNN's automatic slicing; sharded as the op itself lays out each shard layout."""
        allowed = {layout.memory_layout for layout in layouts if layout.is_sharded}
        for layout in layouts:
            if layout.is_dram:
                yield from self._dram(op, layout)
            elif not layout.is_sharded and not any(other.is_dram for other in layouts):
                yield OpCandidate(layout, self._conv_config(op, None, 0, slice_="l1"), layout.memory)
        operands = self.accept.default_operands(op)
        found: list[OpCandidate] = []
        fixed = self.conv2d_overrides.get(op.id, {})
        for memory_layout in (m for m in _CONV_SHARDINGS if m in allowed):
            if fixed.get("shard_layout") not in (None, memory_layout.value):
                continue
            for act_block_h in ACT_BLOCK_H_OVERRIDES:
                config = self._conv_config(op, memory_layout, act_block_h, slice_="l1")
                output = self.accept.produced(op, operands, config, None)
                if output is not None and output.is_sharded and output.is_l1:
                    found.append(OpCandidate(output, config, None))
        yield from sorted(found, key=lambda c: -c.output.num_shard_cores)

    def _attention(self, op: Op, layouts: Sequence[TensorLayout]) -> Iterator[OpCandidate]:
        """A sharded result with TTNN's own chunks and with each that may pay."""
        configs = self._attention_programs(op)
        for layout in layouts:
            yield OpCandidate(layout, None, layout.memory)
            for config in configs if layout.is_sharded else ():
                yield OpCandidate(layout, config, layout.memory)

    def _norm(self, op: Op, layouts: Sequence[TensorLayout]) -> Iterator[OpCandidate]:
        """A sharded result needs a program config when the input is sharded too, and none when it is not."""
        _, width = physical_shape(self.graph.value(op.inputs[0]).shape, layouts[0].page_layout)
        for layout in layouts:
            spec = layout.shard_spec
            if spec is not None and layout.memory_layout is not TensorMemoryLayout.HEIGHT_SHARDED:
                block_w = ceil_div(spec.shape[1], TILE)
                if spec.shape[1] * spec.grid_yx[1] == width:
                    grid_yx = (max(r[3] for r in spec.core_ranges) + 1, max(r[2] for r in spec.core_ranges) + 1)
                    yield OpCandidate(
                        layout,
                        LayerNormShardedMultiCoreProgramConfig(
                            compute_with_storage_grid_yx=grid_yx,
                            subblock_w=largest_divisor(block_w, 4),
                            block_h=ceil_div(spec.shape[0], TILE),
                            block_w=block_w,
                        ),
                        layout.memory,
                    )
            yield OpCandidate(layout, None, layout.memory)

    def _programs(self, op: Op, page: PageLayout) -> Iterator[OpCandidate]:
        """A matmul or attention by a program config, its result interleaved in DRAM or L1."""
        family = opdef(op.op).config
        configs: Iterable[OpConfig] = ()
        if family is ConfigFamily.MATMUL:
            configs = self._matmul_programs(op)
        elif family is ConfigFamily.SDPA:
            configs = self._attention_programs(op)
        for buffer, config in product((BufferType.DRAM, BufferType.L1), configs):
            layout = interleaved_in(buffer, page)
            yield OpCandidate(layout, config, layout.memory)

    def _attention_programs(self, op: Op) -> tuple[OpConfig, ...]:
        """Chunk sizes of attention over a sequence; a decode step takes its own."""
        if "cur_pos" in opdef(op.op).attrs:
            return ()
        q, k = (self.graph.value(v).shape for v in op.inputs[:2])
        return chunk_configs(q, k, bool(op.attrs.get("is_causal")), self.accept.grid_yx)

    def _matmul_programs(self, op: Op) -> tuple[OpConfig, ...]:
        a, b, result = (self.graph.value(v) for v in (op.inputs[0], op.inputs[1], op.outputs[0]))
        if any(d != 1 for d in b.shape[:-2]) or op.attrs.get("transpose_a"):
            return ()
        fp32 = partial(sums_in_f32, self.graph, op)
        rows, columns = physical_shape(result.shape, PageLayout.TILE)
        tiles = (rows // TILE, ceil_div(a.shape[-1], TILE), columns // TILE)
        activation = op.attrs.get("activation") or None
        return interleaved_matmul_configs(tiles, self.accept.grid_yx, fp32, activation)  # type: ignore[arg-type]


def _is_conv(op: Op) -> bool:
    return opdef(op.op).config is ConfigFamily.CONV2D


def _why_not(op: Op, given: Sequence[OpCandidate], layouts: Sequence[TensorLayout]) -> str:
    """The rule that keeps an op from every layout that was asked of it."""
    if _is_conv(op):
        return "a conv chooses the grid of its result itself" if given else "it runs with no such shard layout"
    if opdef(op.op).config is ConfigFamily.MATMUL and not given:
        return "no program config gives a sharded result with a batched second operand or a transposed first one"
    return "it gives " + ", ".join(spelled(layout) for layout in layouts[:SHOWN_LAYOUTS])


def may_free_operand(graph: Graph, op: Op, position: int = 0) -> bool:
    """Whether nobody but this op needs an operand: no other reader, not the caller, nor of what shares its buffer."""
    value_id = op.inputs[position]
    while True:
        if graph.use_count(value_id) > 1 or graph.value(value_id).kind is not ValueKind.ACTIVATION:
            return False
        producer = graph.producer(value_id)
        if producer is None or not _may_share(graph, producer, value_id):
            return True
        value_id = producer.inputs[0]


def _may_share(graph: Graph, producer: Op, value_id: str) -> bool:
    """Whether a value may lie in its producer's operand: views, and copies that change nothing."""
    row = opdef(producer.op)
    if row.view is not None:
        return True
    moves = row.cost_class in (CostClass.DATA_MOVEMENT, CostClass.LAYOUT) and bool(producer.inputs)
    return moves and graph.value(producer.inputs[0]).shape == graph.value(value_id).shape


_EXPANSIONS: dict[ConfigFamily | None, Callable[..., Iterator[OpCandidate]]] = {
    ConfigFamily.MATMUL: LegalOpConfigAnalysis._matmul,
    ConfigFamily.CONV2D: LegalOpConfigAnalysis._conv,
    ConfigFamily.NORM: LegalOpConfigAnalysis._norm,
    ConfigFamily.SDPA: LegalOpConfigAnalysis._attention,
}
