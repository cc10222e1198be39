"""Small ops in every layout that ttopt's own analyses call legal: a question per kind of layout of operand and result.

A kind of layout is its memory layout with its `traits`: of all shardings of a tensor with the same kind the one on
most cores is asked. What a plan would choose must be right, so nothing is asked that the OpModel refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.tiling import TILE, physical_shape, sharded_layout
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.sharding.base import PolicyInput

Shape = tuple[int, ...]
L1_ALIGNMENT = 16
NOC_ALIGNMENT = 32
ALIKE = ("ttnn.concat",)
"""Ops that take operands that are all sharded, or none (tt-metal's own validation)."""


@dataclass(frozen=True)
class Subject:
    """An op on tensors of one size, to be asked in many layouts."""

    op: str
    shapes: tuple[Shape, ...]
    """Of the activations."""
    attrs: tuple[tuple[str, Attr], ...] = ()
    weights: tuple[Shape, ...] = ()
    """Of the operands behind the activations."""
    rows: bool = False
    """The activations come in rows, where the op leaves it open."""
    dtype: DType = DType.BF16

    def graph(self) -> Graph:
        """Inputs, conversions into rows if need be, and the op."""
        b = GraphBuilder("subject")
        names = []
        for index, shape in enumerate(self.shapes):
            name = b.input(f"x{index}", shape, self.dtype)
            names.append(b.op("ttnn.to_layout", name, layout="row_major") if self.rows else name)
        names += [b.parameter(f"w{index}", shape) for index, shape in enumerate(self.weights)]
        return b.finish(*b.ops(self.op, *names, name="subject", **dict(self.attrs)))


def traits(shape: Shape, layout: TensorLayout) -> tuple[str, ...]:
    """What may make a layout special: nothing for whole tiles and even shards."""
    found = []
    rows, columns = physical_shape(shape, layout.page_layout)
    spec = layout.shard_spec
    high, wide = (rows, columns) if spec is None else spec.shape
    if layout.is_tile:
        if len(shape) < 2 or shape[-1] % TILE or shape[-2] % TILE:
            found.append("padded")
    else:
        stick = 2 * wide
        if wide % TILE:
            found.append(f"stick%{TILE}={wide % TILE}" if wide % 8 == 0 else "stick unaligned")
        if spec is not None and high % TILE:
            found.append("rows")
        if stick % NOC_ALIGNMENT and stick % L1_ALIGNMENT:
            found.append("bytes")
    if spec is not None and (rows % high or columns % wide):
        found.append("uneven")
    return tuple(found)


def kind_of(shape: Shape, layout: TensorLayout) -> str:
    """`block_sharded rm stick%32=8 uneven`, `dram tile`, ..."""
    place = layout.memory_layout.value if layout.is_sharded else layout.memory.buffer_type.value
    return " ".join((place, "tile" if layout.is_tile else "rm", *traits(shape, layout)))


def _representatives(shape: Shape, layouts: tuple[TensorLayout, ...]) -> list[TensorLayout]:
    """One layout of each kind, that on most cores."""
    found: dict[str, TensorLayout] = {}
    for layout in sorted(layouts, key=lambda x: -x.num_shard_cores):
        found.setdefault(kind_of(shape, layout), layout)
    return list(found.values())


def legal_queries(subject: Subject, device: DeviceSpec, per_subject: int, seed: int = 0) -> list[OpQuery]:
    """At most so many legal questions about a subject, of as many pairs of kinds as possible; the same every time."""
    options = Options(board=device.name, row_major_enabled=True)
    model = CachedOpModel(create("analytical", device, options.l1_small_bytes))
    problem = prepare(subject.graph(), model, options)
    found: dict[tuple[str, str], OpQuery] = {}
    for operands, candidate in _ways(problem, subject):
        op = problem.graph.op("subject")
        answer = problem.pricer.constraints(op, operands, candidate.config, candidate.request)
        if not answer.valid:
            continue
        query = problem.pricer.query(op, operands, candidate.config, candidate.request)
        kinds = " + ".join(kind_of(t.shape, t.layout) for t in query.inputs if not t.layout.is_host)
        result = answer.outputs[0]
        found.setdefault((kinds, kind_of(result.shape, result.layout)), query)
    queries = list(found.values())
    random.Random(seed).shuffle(queries)
    return queries[:per_subject]


def _ways(problem: PolicyInput, subject: Subject) -> Iterator[tuple[tuple[TensorLayout, ...], OpCandidate]]:
    op = problem.graph.op("subject")
    legal = problem.legal[op.id]
    result = problem.graph.value(op.outputs[0])
    sharded = _representatives(result.shape, tuple(c.output for c in legal.sharded))
    outputs = [*legal.dram[:1], *legal.l1_interleaved[:1], *(c for c in legal.sharded if c.output in sharded)]
    outputs += legal.programmed[:2]
    for operands in _operands(problem, subject):
        follow = problem.pricer.followed(op, operands)
        own = [c for c in legal.sharded if c.output == follow]
        yield from ((operands, c) for c in dict.fromkeys((*own, *outputs)))


def _operands(problem: PolicyInput, subject: Subject) -> Iterator[tuple[TensorLayout, ...]]:
    """All interleaved, all sharded alike, or one sharded and the others in DRAM."""
    op = problem.graph.op("subject")
    default = problem.pricer.default_operands(op)
    activations = range(len(subject.shapes))
    device = problem.pricer.model.device
    pages = [problem.pricer.pages[v] for v in op.inputs]
    for places in product((BufferType.DRAM, BufferType.L1), repeat=len(activations)):
        yield (*(interleaved(place, pages[k]) for k, place in enumerate(places)), *default[len(places) :])
    for first in activations:
        shape = subject.shapes[first]
        for layout in _representatives(
            shape, problem.pools.pool(shape, problem.graph.value(op.inputs[first]).dtype, pages[first]).sharded
        ):
            if op.op not in ALIKE:
                yield tuple(layout if k == first else other for k, other in enumerate(default))
            spec = layout.shard_spec
            assert spec is not None
            alike = (
                sharded_layout(subject.shapes[k], layout.memory_layout, spec.grid_yx, device, pages[k])
                for k in activations
            )
            yield (*alike, *default[len(activations) :])


# -- subjects ------------------------------------------------------------------------------------------------
WIDTHS = (8, 16, 24, 32, 40, 48, 64, 80, 96)


def _window(side: int, kernel: int, stride: int = 1, padding: int | None = None) -> dict[str, Attr]:
    edge = kernel // 2 if padding is None else padding
    return {
        "batch_size": 1,
        "input_height": side,
        "input_width": side,
        "kernel_size": (kernel, kernel),
        "stride": (stride, stride),
        "padding": (edge,) * 4,
        "dilation": (1, 1),
    }


def _subject(op: str, *shapes: Shape, weights: tuple[Shape, ...] = (), rows: bool = False, **attrs: Attr) -> Subject:
    return Subject(f"ttnn.{op}", shapes, tuple(sorted(attrs.items())), weights, rows)


def _pools() -> Iterator[Subject]:
    for op, kernel, stride in (("max_pool2d", 3, 1), ("avg_pool2d", 3, 1), ("max_pool2d", 5, 1), ("max_pool2d", 2, 2)):
        for channels in (*WIDTHS, 128, 256):
            if kernel == 5 and channels > 128:
                continue
            window = _window(10, kernel, stride, None if stride == 1 else 0)
            yield _subject(op, (1, 1, 100, channels), channels=channels, **window)
    yield _subject("max_pool2d", (1, 1, 400, 64), channels=64, **_window(20, 5))
    yield _subject("avg_pool2d", (1, 1, 49, 320), channels=320, **_window(7, 7, 1, 0))


def _convs() -> Iterator[Subject]:
    for cin, cout, kernel, stride in ((16, 24, 3, 1), (24, 40, 1, 1), (40, 48, 3, 2), (64, 64, 3, 1), (96, 80, 1, 1)):
        for rows in (False, True):
            window = _window(10, kernel, stride)
            weights = ((cout, cin, kernel, kernel), (1, 1, 1, cout))
            channels = {"in_channels": cin, "out_channels": cout}
            yield _subject("conv2d", (1, 1, 100, cin), weights=weights, rows=rows, **channels, **window)
    depth = {"in_channels": 96, "out_channels": 96, "groups": 96}
    weights = ((96, 1, 3, 3), (1, 1, 1, 96))
    yield _subject("conv2d", (1, 1, 100, 96), weights=weights, **depth, **_window(10, 3))
    up = {"in_channels": 48, "out_channels": 24, **_window(6, 2, 2, 0)}
    yield _subject("conv_transpose2d", (1, 1, 36, 48), weights=((48, 24, 2, 2), (1, 1, 1, 24)), **up)


def _upsamples() -> Iterator[Subject]:
    for channels in (8, 16, 24, 32, 64, 96):
        for mode in ("nearest", "bilinear"):
            yield _subject("upsample", (1, 10, 10, channels), scale_factor=(2, 2), mode=mode)


def _movements() -> Iterator[Subject]:
    for rows in (False, True):
        for width in (16, 24, 40, 64, 96):
            shape = (1, 1, 100, width)
            yield _subject("slice", shape, rows=rows, begins=(0, 0, 20, 8), ends=(1, 1, 84, width), steps=None)
            yield _subject("slice", shape, rows=rows, begins=(0, 0, 0, 0), ends=(1, 1, 50, width // 2), steps=None)
            yield _subject("concat", shape, shape, rows=rows, dim=3)
            yield _subject("concat", shape, (1, 1, 60, width), rows=rows, dim=2)
            yield _subject("transpose", shape, rows=rows, dim0=2, dim1=3)
            yield _subject("pad", shape, rows=rows, padding=((0, 0), (0, 0), (0, 12), (0, 8)), value=1.5)
            yield _subject("reshape", shape, rows=rows, shape=(1, 4, 25, width))
            yield _subject("reshape", shape, rows=rows, shape=(1, 1, 50, 2 * width))
        image = (1, 10, 10, 24)
        yield _subject("permute", image, rows=rows, dims=(0, 3, 1, 2))
        yield _subject("permute", image, rows=rows, dims=(0, 2, 1, 3))
        yield _subject("transpose", (1, 6, 40, 48), rows=rows, dim0=1, dim1=2)
        yield _subject("split", (1, 1, 100, 80), rows=rows, sizes=(40, 40), dim=3)
        yield _subject("split", (1, 1, 100, 128), rows=rows, sizes=(64, 64), dim=3)
        yield _subject("split", (1, 1, 96, 40), rows=rows, sizes=(32, 64), dim=2)
        yield _subject("repeat", (1, 1, 50, 24), rows=rows, repeats=(1, 2, 1, 2))
        yield _subject("repeat_interleave", (1, 1, 50, 24), rows=rows, repeats=2, dim=2)


def _layouts() -> Iterator[Subject]:
    for width in (8, 16, 24, 32, 40, 64, 96):
        yield _subject("to_layout", (1, 1, 100, width), layout="row_major")
        yield _subject("to_layout", (1, 1, 100, width), rows=True, layout="tile")
        yield _subject("to_layout", (1, 3, 50, width), rows=True, layout="tile")


def _eltwise() -> Iterator[Subject]:
    for rows in (False, True):
        for width in (16, 24, 40, 64, 96):
            shape = (1, 1, 100, width)
            yield _subject("silu", shape, rows=rows)
            yield _subject("add", shape, shape, rows=rows)
            yield _subject("multiply", shape, (1, 1, 1, width), rows=rows)
            yield _subject("multiply", shape, (1, 1, 100, 1), rows=rows)
        yield _subject("subtract", (1, 3, 50, 40), (1, 1, 50, 40), rows=rows)
        yield _subject("where", (1, 1, 100, 40), (1, 1, 100, 40), (1, 1, 100, 40), rows=rows)
    yield _subject("typecast", (1, 1, 100, 40), dtype="f32")
    yield _subject("clamp", (1, 1, 100, 40), min=-0.5, max=0.5)


def _rows_of_numbers() -> Iterator[Subject]:
    for shape in ((1, 1, 100, 40), (1, 3, 50, 96), (1, 1, 64, 128), (1, 1, 7, 200)):
        width = shape[-1]
        yield _subject("softmax", shape, dim=-1)
        yield _subject("layer_norm", shape, weights=((width,), (width,)))
        yield _subject("rms_norm", shape, weights=((width,),))
        for op in ("sum", "mean", "max", "min"):
            for dim in (-1, -2, (-2, -1)):
                yield _subject(op, shape, dim=dim, keepdim=True)
        yield _subject("sum", shape, dim=1, keepdim=True)
        yield _subject("cumsum", shape, dim=-1)
        yield _subject("argmax", shape, dim=-1, keepdim=True)
    yield _subject("softmax", (1, 1, 100, 40), dim=-2)
    yield _subject("group_norm", (1, 1, 64, 96), weights=((96,), (96,)), num_groups=3)
    yield _subject("topk", (1, 1, 32, 64), k=8, dim=-1)
    yield _subject("std", (1, 1, 100, 40), dim=-1, keepdim=True)


def _products() -> Iterator[Subject]:
    for m, k, n in ((100, 40, 56), (64, 96, 80), (7, 200, 300), (96, 64, 128)):
        yield _subject("linear", (1, 1, m, k), weights=((k, n), (1, n)))
        yield _subject("matmul", (1, 1, m, k), (1, 1, k, n))
    yield _subject("matmul", (1, 3, 50, 40), (1, 3, 40, 50))
    for rows in (50, 64):
        heads = (1, 3, rows, 32)
        yield _subject("scaled_dot_product_attention", heads, heads, heads, is_causal=False)
    yield _subject("concatenate_heads", (1, 3, 64, 32))
    yield _subject("nlp_concat_heads", (1, 3, 50, 32))
    yield _subject("split_query_key_value_and_split_heads", (1, 64, 288), num_heads=3)


FAMILIES: dict[str, Callable[[], Iterator[Subject]]] = {
    "pools": _pools,
    "convs": _convs,
    "upsamples": _upsamples,
    "movements": _movements,
    "layouts": _layouts,
    "eltwise": _eltwise,
    "rows": _rows_of_numbers,
    "products": _products,
}
"""Names of the groups that the command takes -> their subjects."""


def copies(device: DeviceSpec, per_shape: int, seed: int = 0) -> list[OpQuery]:
    """`ttnn.to_memory_config` between the kinds of layouts of small tensors, in tiles and in rows."""
    options = Options(board=device.name)
    model = CachedOpModel(create("analytical", device, options.l1_small_bytes))
    found: list[OpQuery] = []
    for shape, page in product(((1, 1, 100, 40), (1, 1, 100, 96), (1, 1, 400, 64), (1, 3, 50, 24)), PageLayout):
        subject = Subject("ttnn.identity", (shape,), rows=page is PageLayout.ROW_MAJOR)
        problem = prepare(subject.graph(), model, options)
        pool = problem.pools.pool(shape, DType.BF16, page)
        layouts = [*pool.interleaved, *_representatives(shape, pool.sharded)]
        queries = [
            OpQuery("ttnn.to_memory_config", (TensorSpec(shape, DType.BF16, a),), (), None, b.memory)
            for a, b in product(layouts, layouts)
            if a != b
        ]
        legal = [q for q in queries if model.constraints(q).valid]
        random.Random(seed).shuffle(legal)
        found += legal[:per_shape]
    return found


def family_queries(name: str, device: DeviceSpec, per_subject: int) -> list[OpQuery]:
    """The questions of one family."""
    if name == "copies":
        return copies(device, per_subject)
    found: dict[OpQuery, None] = {}
    for subject in FAMILIES[name]():
        if not opdef(subject.op).opaque:
            found.update(dict.fromkeys(legal_queries(subject, device, per_subject)))
    return list(found)
