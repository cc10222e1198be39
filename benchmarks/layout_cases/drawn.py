"""Questions that nobody chose: ops, shapes, element types, layouts and configs drawn from the planner's own tables.

A subject is drawn (an op with sizes and attributes), what a user may ask for (math fidelity, element types of weights
and of the result), then layouts of its operands out of the pools that a plan chooses from, and a way to run it out of
the op's legal ones. Whatever the OpModel calls valid is a question. The same seed draws the same questions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from layout_cases.sweep import ALIKE, Shape, Subject, kind_of
from optimizer.device import DeviceSpec
from optimizer.errors import TtoptError
from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.ir.compute_config import FIDELITIES
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import RESULT_DTYPE
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.sharding.base import PolicyInput

PER_SUBJECT = 6
COPIES = 0.07
"""Share of the subjects that are copies between layouts."""
RESULT_ASKED = 0.25
"""Share of the ops that take an element type for their result of which one is asked."""
TRIES = 60
"""Ways of one subject that are looked at."""
CHANNELS = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 104, 128, 160, 192)
ROWS = (1, 7, 17, 32, 33, 50, 64, 96, 100, 128)
WIDTHS = (*CHANNELS, 20, 100, 200, 320)
KERNELS = ((1, 1), (2, 2), (3, 3), (5, 5), (1, 3), (3, 1), (1, 5), (5, 1), (1, 7))
_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "logical_right_shift", "bitwise_not")


def class_of(query: OpQuery) -> str:
    """What makes a question of another kind: op, element types, kinds of layouts, and which config."""
    operands = [f"{t.dtype.value} {kind_of(t.shape, t.layout)}" for t in query.inputs if not t.layout.is_host]
    asked = "default" if query.output is None else query.output.memory_layout.value
    asked += "" if query.output_dtype is None else f" {query.output_dtype.value}"
    config = "" if query.config is None else f" by {type(query.config).__name__}"
    return f"{query.op.removeprefix('ttnn.')}({', '.join(operands)}) -> {asked}{config}"


def drawn_queries(device: DeviceSpec, count: int, seed: int = 0, most_alike: int = 40) -> list[OpQuery]:
    """So many distinct questions, of one class at most `most_alike`."""
    rng, found, classes = random.Random(seed), dict[OpQuery, None](), Counter[str]()
    plain = Options(board=device.name, row_major_enabled=True)
    model = CachedOpModel(create("analytical", device, plain.l1_small_bytes))
    while len(found) < count:
        copied = rng.random() < COPIES
        subject = Subject("ttnn.identity", (_shape(rng),), rows=rng.random() < 0.5) if copied else drawn_subject(rng)
        try:
            problem = prepare(subject.graph(), model, _modes(plain, rng))
        except TtoptError:  # such a subject cannot be said, or not run
            continue
        if not any(op.id == "subject" for op in problem.graph.ops()):  # computed in another way
            continue
        for query in (_copies if copied else _ways)(problem, subject, rng):
            if classes[class_of(query)] < most_alike and query not in found:
                classes[class_of(query)] += 1
                found[query] = None
    return list(found)[:count]


def _modes(plain: Options, rng: random.Random) -> Options:
    """What a user may ask for of matmuls and convolutions."""
    return replace(
        plain,
        math_fidelity=rng.choice((None, None, None, *FIDELITIES)),
        weights_dtype=rng.choice((None, None, None, "bfp8_b", "bfp4_b")),
    )


def _ways(problem: PolicyInput, subject: Subject, rng: random.Random) -> Iterator[OpQuery]:
    op = problem.graph.op("subject")
    legal, left = problem.legal[op.id], PER_SUBJECT
    ways = [group for group in (legal.dram, legal.l1_interleaved, legal.sharded, legal.programmed) if group]
    for _ in range(TRIES):
        operands, candidate = _operands(problem, subject, rng), rng.choice(rng.choice(ways))
        if problem.pricer.constraints(op, operands, candidate.config, candidate.request).valid:
            yield problem.pricer.query(op, operands, candidate.config, candidate.request)
            left -= 1
            if not left:
                return


def _copies(problem: PolicyInput, subject: Subject, rng: random.Random) -> Iterator[OpQuery]:
    """Copies from one layout to another."""
    op = problem.graph.op("subject")
    shape, page = subject.shapes[0], problem.pricer.pages[op.inputs[0]]
    pool = problem.pools.pool(shape, subject.dtype, page)
    layouts = [*pool.interleaved, *pool.sharded]
    for _ in range(PER_SUBJECT):
        source, target = rng.choice(layouts), rng.choice(layouts)
        spec = TensorSpec(shape, subject.dtype, source)
        query = OpQuery("ttnn.to_memory_config", (spec,), output=target.memory)
        if source != target and problem.pricer.model.constraints(query).valid:
            yield query


def _operands(problem: PolicyInput, subject: Subject, rng: random.Random) -> tuple[TensorLayout, ...]:
    """Of the first activation any layout of its pool; the others often as it is, else any of their own."""
    op = problem.graph.op("subject")
    default = problem.pricer.default_operands(op)
    found: list[TensorLayout] = []
    for v in op.inputs[: len(subject.shapes)]:
        value = problem.graph.value(v)
        pool = problem.pools.pool(value.shape, value.dtype, problem.pricer.pages[v])
        own = rng.choice(
            rng.choice((pool.interleaved, pool.sharded or pool.interleaved, pool.sharded or pool.interleaved))
        )
        spec = found[0].shard_spec if found else None
        if spec is not None and (op.op in ALIKE or rng.random() < 0.6):
            kind, page = found[0].memory_layout, problem.pricer.pages[v]
            own = sharded_layout(value.shape, kind, spec.grid_yx, problem.pricer.model.device, page)
        found.append(own)
    return (*found, *default[len(found) :])


# -- subjects ------------------------------------------------------------------------------------------------
def drawn_subject(rng: random.Random) -> Subject:
    """An op on tensors of drawn sizes."""
    made = rng.choice(_DRAWN)(rng)
    if not made.rows and opdef(made.op).takes_dtype and rng.random() < RESULT_ASKED:
        asked = rng.choice((DType.BF16, DType.F32, DType.BFP8_B, DType.BFP4_B))
        made = replace(made, attrs=tuple(sorted((*made.attrs, (RESULT_DTYPE, asked.value)))))
    if made.rows or any(name in made.op for name in ("pool", "upsample")):
        return made
    dtype = rng.choices((DType.BF16, DType.F32, DType.BFP8_B, DType.BFP4_B), (6, 1, 1, 0.5))[0]
    return replace(made, dtype=dtype)


def _subject(op: str, *shapes: Shape, weights: tuple[Shape, ...] = (), rows: bool = False, **attrs: Any) -> Subject:
    return Subject(f"ttnn.{op}", shapes, tuple(sorted(attrs.items())), weights, rows)


def _shape(rng: random.Random) -> Shape:
    return (1, rng.choice((1, 1, 1, 2, 3)), rng.choice(ROWS), rng.choice(WIDTHS))


def _window(rng: random.Random) -> tuple[dict[str, Any], int]:
    """Attributes of a window, and positions of the image."""
    high, wide = rng.choice(KERNELS)
    size = rng.randint(max(5, high), 14), rng.randint(max(5, wide), 14)
    edges = rng.choice(((high // 2, wide // 2), (0, 0)))
    stride = rng.choice(((1, 1), (1, 1), (2, 2), (1, 2)))
    batch = rng.choice((1, 1, 2))
    attrs = {
        "batch_size": batch,
        "input_height": size[0],
        "input_width": size[1],
        "kernel_size": (high, wide),
        "stride": stride,
        "padding": (edges[0], edges[0], edges[1], edges[1]),
        "dilation": (1, 1),
    }
    return attrs, batch * size[0] * size[1]


def _pool(rng: random.Random) -> Subject:
    (window, positions), channels = _window(rng), rng.choice(CHANNELS)
    op = rng.choice(("max_pool2d", "avg_pool2d"))
    return _subject(op, (1, 1, positions, channels), channels=channels, **window)


def _conv(rng: random.Random) -> Subject:
    window, positions = _window(rng)
    groups = rng.choice((0, 0, 0, 1))
    cin = rng.choice(CHANNELS)
    cout = cin if groups else rng.choice(CHANNELS)
    weights: tuple[Shape, ...] = ((cout, 1 if groups else cin, *window["kernel_size"]), (1, 1, 1, cout))
    window |= {"groups": cin} if groups else {}
    if rng.random() < 0.3:
        window["activation"] = "relu"
    channels = {"in_channels": cin, "out_channels": cout}
    rows, bias = rng.random() < 0.5, rng.random() < 0.7
    return _subject(
        "conv2d", (1, 1, positions, cin), weights=weights if bias else weights[:1], rows=rows, **channels, **window
    )


def _transposed(rng: random.Random) -> Subject:
    kernel, (cin, cout) = rng.choice((2, 3, 4)), (rng.choice(CHANNELS), rng.choice(CHANNELS))
    high, wide = rng.randint(3, 9), rng.randint(3, 9)
    attrs = {
        "batch_size": 1, "input_height": high, "input_width": wide, "kernel_size": (kernel, kernel),
        "stride": (2, 2), "padding": (kernel // 2 - (kernel == 2),) * 4, "dilation": (1, 1),
        "in_channels": cin, "out_channels": cout,
    }  # fmt: skip
    weights = ((cin, cout, kernel, kernel), (1, 1, 1, cout))
    return _subject("conv_transpose2d", (1, 1, high * wide, cin), weights=weights, **attrs)


def _upsample(rng: random.Random) -> Subject:
    shape = (1, rng.randint(3, 12), rng.randint(3, 12), rng.choice(CHANNELS))
    factor = rng.choice((2, 2, 3))
    return _subject("upsample", shape, scale_factor=(factor, factor), mode=rng.choice(("nearest", "bilinear")))


def _moved(rng: random.Random) -> Subject:
    shape, rows = _shape(rng), rng.random() < 0.5
    dims = rng.sample(range(4), 4)
    kind = rng.choice(("slice", "concat", "transpose", "permute", "pad", "reshape", "split", "repeat", "interleave"))
    if kind == "slice":
        begins = tuple(rng.randint(0, size // 2) for size in shape)
        ends = tuple(rng.randint(begin + 1, size) for begin, size in zip(begins, shape, strict=True))
        return _subject("slice", shape, rows=rows, begins=begins, ends=ends, steps=None)
    if kind == "concat":
        dim = rng.choice((1, 2, 3))
        others = [
            tuple(rng.choice(ROWS) if d == dim else s for d, s in enumerate(shape)) for _ in range(rng.choice((1, 2)))
        ]
        return _subject("concat", shape, *others, rows=rows, dim=dim)
    if kind == "transpose":
        return _subject("transpose", shape, rows=rows, dim0=dims[0], dim1=dims[1])
    if kind == "permute":
        return _subject("permute", shape, rows=rows, dims=tuple(dims))
    if kind == "pad":
        edges = tuple((0, rng.choice((0, 3, 8, 32))) if d > 1 else (0, 0) for d in range(4))
        return _subject("pad", shape, rows=rows, padding=edges, value=rng.choice((0.0, 1.5)))
    if kind == "reshape":
        b, c, h, w = shape
        return _subject(
            "reshape", shape, rows=rows, shape=rng.choice(((b, 1, c * h, w), (b, h, c, w), (1, 1, b * c, h * w)))
        )
    if kind == "split":
        half = shape[-1] // 2
        return _subject("split", shape, rows=rows, sizes=(half, shape[-1] - half), dim=3)
    if kind == "repeat":
        return _subject(
            "repeat", shape, rows=rows, repeats=(1, rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2)))
        )
    return _subject("repeat_interleave", shape, rows=rows, repeats=2, dim=rng.choice((1, 2, 3)))


def _layout(rng: random.Random) -> Subject:
    rows = rng.random() < 0.5
    return _subject("to_layout", _shape(rng), rows=rows, layout="tile" if rows else "row_major")


def _eltwise(rng: random.Random) -> Subject:
    shape, rows = _shape(rng), rng.random() < 0.3
    if rng.random() < 0.4:
        return _subject(rng.choice([name for name in UNARY if name not in _INTEGERS]), shape, rows=rows)
    name = rng.choice([name for name in BINARY if name not in _INTEGERS])
    other = tuple(rng.choice((s, s, s, 1)) for s in shape)
    more = {"activations": ("relu",)} if name in ("add", "multiply") and rng.random() < 0.3 else {}
    return _subject(name, shape, other, rows=rows, **more)


def _chosen(rng: random.Random) -> Subject:
    shape = _shape(rng)
    kind = rng.choice(("where", "clamp", "typecast", "tril"))
    if kind == "where":
        return _subject("where", shape, shape, shape, rows=rng.random() < 0.3)
    if kind == "clamp":
        return _subject("clamp", shape, min=-0.5, max=0.5)
    if kind == "typecast":
        return _subject("typecast", shape, dtype=rng.choice(("f32", "bfp8_b", "i32")))
    return _subject(rng.choice(("tril", "triu")), shape, diagonal=rng.randint(-2, 2))


def _norm(rng: random.Random) -> Subject:
    shape = _shape(rng)
    width, kind = shape[-1], rng.choice(("softmax", "layer_norm", "rms_norm"))
    if kind == "softmax":
        return _subject("softmax", shape, dim=rng.choice((-1, -1, -2)))
    return _subject(kind, shape, weights=((width,), (width,)) if kind == "layer_norm" else ((width,),))


def _reduced(rng: random.Random) -> Subject:
    shape, kind = _shape(rng), rng.choice((*REDUCTIONS, "cumsum", "argmax", "topk"))
    if kind == "cumsum":
        return _subject("cumsum", shape, dim=rng.choice((-1, -2, 1)))
    if kind == "argmax":
        return _subject("argmax", shape, dim=-1, keepdim=True)
    if kind == "topk":
        return _subject("topk", (1, 1, shape[2], max(64, shape[3])), k=rng.choice((1, 5, 8, 32)), dim=-1)
    return _subject(kind, shape, dim=rng.choice((-1, -2, 1, (-2, -1))), keepdim=rng.random() < 0.7)


def _product(rng: random.Random) -> Subject:
    m, k, n = rng.choice(ROWS), rng.choice(WIDTHS), rng.choice(WIDTHS)
    batch = rng.choice((1, 1, 2, 3))
    kind = rng.choice(("linear", "linear", "matmul", "activation"))
    if kind == "matmul":
        return _subject("matmul", (1, batch, m, k), (1, batch, k, n))
    more = {"activation": rng.choice(("relu", "gelu", "silu"))} if kind == "activation" else {}
    weights = ((k, n), (1, n))
    return _subject("linear", (1, batch, m, k), weights=weights if rng.random() < 0.7 else weights[:1], **more)


def _attention(rng: random.Random) -> Subject:
    heads, rows, depth = rng.choice((1, 3, 4)), rng.choice((32, 50, 64, 128)), rng.choice((32, 64))
    q = (1, heads, rows, depth)
    kind = rng.choice(("sdpa", "join", "split"))
    if kind == "sdpa":
        return _subject("scaled_dot_product_attention", q, q, q, is_causal=rng.random() < 0.5)
    if kind == "join":
        return _subject(rng.choice(("concatenate_heads", "nlp_concat_heads")), q)
    op = rng.choice(("split_query_key_value_and_split_heads", "nlp_create_qkv_heads"))
    shape = (1, rows, 3 * heads * depth)
    return _subject(op, shape if op.startswith("split") else (1, *shape), num_heads=heads)


_DRAWN: tuple[Callable[[random.Random], Subject], ...] = (
    _pool, _conv, _conv, _conv, _transposed, _upsample, _moved, _moved, _moved, _layout, _eltwise, _eltwise, _chosen,
    _norm, _norm, _reduced, _product, _product, _attention,
)  # fmt: skip
