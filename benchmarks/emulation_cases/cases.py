"""Small ops of every kind that the real models use, with the element types and compute configs that TTNN takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.compute_config import COMPUTE, ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import COPY, opdef
from optimizer.layouts.memory_config import HOST_ROW_MAJOR, BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.op_config import Conv2dConfig, MatmulMultiCoreReuseMultiCastProgramConfig, OpConfig
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.pricing import op_query
from optimizer.values.emulation.emulated import result_dtypes

BF16, BFP8, BFP4, F32 = DType.BF16, DType.BFP8_B, DType.BFP4_B, DType.F32
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One op on the device."""

    name: str
    """Of the case, as records and fixtures have it."""
    query: OpQuery
    kind: str = ""

    @property
    def result(self) -> DType:
        """Element type of the first result."""
        return result_dtypes(self.query)[0]

    @property
    def dtypes(self) -> str:
        """Of the operands, then of the result."""
        return ",".join(x.dtype.value for x in self.query.inputs) + "->" + self.result.value

    @property
    def compute(self) -> str:
        """Fidelity, sums and the rest, in short."""
        given: dict[str, object] = dict(self.query.attr.get(COMPUTE) or ())  # type: ignore[arg-type]
        if not given:
            return "-"
        words = [str(given["fid"]), "32" if given["fp32"] else "16"]
        words += ["l1acc"] if given["l1acc"] else []
        words += ["approx"] if given["approx"] else []
        block = getattr(self.query.config, "in0_block_w", 0)
        return " ".join([*words, *([f"block {block}"] if block else [])])


def _layout(page: Page, rows: bool) -> TensorLayout:
    if page is Page.HOST:
        return HOST_ROW_MAJOR
    row_major = page is Page.ROW_MAJOR or (page is Page.ANY and rows)
    return interleaved(BufferType.DRAM, PageLayout.ROW_MAJOR if row_major else PageLayout.TILE)


def case(
    op: str,
    *operands: tuple[Shape, DType],
    result: DType | None = None,
    compute: ComputeConfig | None = None,
    config: OpConfig | None = None,
    rows: bool = False,
    title: str = "",
    **attrs: Attr,
) -> Case:
    """A case in DRAM; `rows`: operands come in rows where the op leaves it open."""
    b = GraphBuilder("case")
    names = [b.input(f"x{k}", shape, dtype) for k, (shape, dtype) in enumerate(operands)]
    b.ops(f"ttnn.{op}", *names, name="op", **attrs)
    graph = b.finish()
    made = graph.op("op")
    if compute is not None:
        made = made.with_attrs(**{COMPUTE: compute.attr})
    row = opdef(made.op)
    layouts = [_layout(row.required_page(made, k), rows) for k in range(len(operands))]
    place = interleaved(BufferType.DRAM, PageLayout.TILE).memory if made.op in (COPY, "ttnn.group_norm") else None
    query = replace(op_query(graph, made, layouts, config, place), output_dtype=result)
    found = Case("", query, op)
    shapes = "x".join("_".join(map(str, shape)) for shape, _ in operands)
    words = (op, title, shapes, found.dtypes, found.compute)
    return Case(" ".join(word for word in words if word), query, op)


def _2d(block: int, activation: str | None = None) -> OpConfig:
    return MatmulMultiCoreReuseMultiCastProgramConfig((2, 2), block, 1, 1, 2, 2, fused_activation=activation)


def _compute(fidelity: str, wide: bool, packer: bool = True, approx: bool = False) -> ComputeConfig:
    return ComputeConfig(fidelity, wide, packer, approx)


def _product(
    a: DType,
    b: DType,
    result: DType,
    compute: ComputeConfig,
    block: int = 2,
    depth: int = 1024,
    op: str = "matmul",
    bias: DType | None = None,
    activation: str | None = None,
) -> Case:
    operands = [((1, 1, 128, depth), a), ((1, 1, depth, 128), b), *([((1, 1, 1, 128), bias)] if bias else [])]
    return case(op, *operands, result=result, compute=compute, config=_2d(block, activation), title=activation or "")


FIDELITIES = ("lofi", "hifi2", "hifi3", "hifi4")


def products() -> Iterator[Case]:
    for wide in (False, True):
        for fidelity in FIDELITIES:
            yield _product(BF16, BF16, BF16, _compute(fidelity, wide))
    for block in (4, 8, 32):
        yield _product(BF16, BF16, BF16, _compute("hifi2", False), block)
    yield _product(BF16, BF16, BF16, _compute("hifi2", False, packer=False), 4)
    for block in (1, 4, 32):
        yield _product(BF16, BF16, BF16, _compute("lofi", False), block)
    yield _product(BF16, BF16, BF16, _compute("hifi4", False), 8)
    yield _product(BF16, BF16, BF16, _compute("hifi2", True), 32)
    for depth in (64, 256):
        yield _product(BF16, BF16, BF16, _compute("hifi2", False), 2, depth)
    for b in (BFP8, BFP4):
        for fidelity in ("lofi", "hifi2"):
            for wide in (False, True):
                yield _product(BF16, b, BF16, _compute(fidelity, wide))
    for fidelity in ("lofi", "hifi2", "hifi3"):
        yield _product(BFP8, BFP8, BFP8, _compute(fidelity, True))
    yield _product(BFP8, BFP8, BFP8, _compute("hifi2", False))
    yield _product(BFP8, BFP8, BF16, _compute("hifi2", True))
    yield _product(BFP8, BFP4, BFP8, _compute("lofi", True))
    yield _product(BFP4, BFP4, BFP4, _compute("lofi", True))
    yield _product(BF16, BF16, BFP8, _compute("hifi2", True))
    yield _product(BF16, BF16, BFP8, _compute("hifi2", False))
    yield _product(BF16, BF16, BFP4, _compute("hifi2", True))
    yield _product(BF16, BF16, F32, _compute("hifi4", True))
    for fidelity in FIDELITIES:
        yield _product(F32, F32, F32, _compute(fidelity, True))
    yield _product(F32, F32, F32, _compute("hifi3", False))
    yield _product(F32, BF16, F32, _compute("hifi3", True))
    for activation in (None, "relu", "gelu", "silu"):
        for wide in (False, True):
            yield _product(BF16, BF16, BF16, _compute("hifi2", wide), 2, 256, "linear", BF16, activation)
    yield _product(BF16, BFP8, BF16, _compute("lofi", False), 2, 256, "linear", BF16)


def _conv(
    cin: int,
    cout: int,
    kernel: int,
    compute: ComputeConfig,
    x: DType = BF16,
    weight: DType = BF16,
    result: DType | None = None,
    groups: int = 1,
    activation: str | None = None,
    shards: str | None = None,
    side: int = 16,
) -> Case:
    window = {"batch_size": 1, "input_height": side, "input_width": side, "kernel_size": (kernel, kernel),
              "stride": (1, 1), "padding": (kernel // 2,) * 4, "dilation": (1, 1)}  # fmt: skip
    given = F32 if weight.is_block_float else weight  # the op makes block floats of its weights itself
    words = (shards, f"w {weight.value}", f"g{groups}", activation)
    return case(
        "conv2d",
        ((1, 1, side * side, cin), x),
        ((cout, cin // groups, kernel, kernel), given),
        ((1, 1, 1, cout), given),
        result=result,
        compute=compute,
        config=Conv2dConfig(weights_dtype=weight.value, shard_layout=shards, slice="l1" if shards else "auto"),
        title=" ".join(word for word in words if word),
        in_channels=cin,
        out_channels=cout,
        groups=groups,
        activation=activation,
        **window,
    )


def convolutions() -> Iterator[Case]:
    for fidelity in FIDELITIES:
        yield _conv(64, 64, 3, _compute(fidelity, True))
    yield _conv(64, 64, 3, _compute("hifi2", False))
    yield _conv(64, 64, 3, _compute("hifi4", False))
    yield _conv(64, 64, 3, _compute("hifi4", False, packer=False))
    for shards in ("height_sharded", "block_sharded", "width_sharded"):
        yield _conv(128, 128, 3, _compute("hifi3", True), shards=shards)
        yield _conv(128, 128, 3, _compute("hifi2", False), shards=shards)
    for weight in (BFP8, BFP4):
        for fidelity in ("lofi", "hifi2"):
            yield _conv(64, 64, 3, _compute(fidelity, True), weight=weight)
    yield _conv(64, 64, 3, _compute("hifi2", True), x=BFP8, weight=BFP8, result=BFP8)
    yield _conv(64, 64, 3, _compute("lofi", True), x=BFP8, weight=BFP8, result=BFP8)
    yield _conv(64, 64, 3, _compute("lofi", True), x=BFP8, weight=BFP4, result=BFP8)
    yield _conv(64, 64, 3, _compute("hifi3", True), result=BFP8)
    yield _conv(64, 64, 1, _compute("hifi3", True))
    yield _conv(64, 64, 1, _compute("lofi", True), x=BFP8, weight=BFP8, result=BFP8)
    yield _conv(64, 64, 3, _compute("hifi3", True), activation="relu")
    yield _conv(64, 64, 3, _compute("hifi3", True), activation="silu")
    for fidelity, wide in (("hifi3", True), ("hifi2", True), ("lofi", False)):
        yield _conv(64, 64, 3, _compute(fidelity, wide), groups=64)


def attention() -> Iterator[Case]:
    qkv = (1, 2, 128, 64)
    for dtype in (BF16, BFP8):
        yield case("scaled_dot_product_attention", *[(qkv, dtype)] * 3, compute=_compute("hifi3", False))
    for compute in (
        _compute("hifi2", False), _compute("lofi", False), _compute("hifi4", False), _compute("hifi3", True),
        _compute("hifi2", True), _compute("hifi3", False, approx=True),
    ):  # fmt: skip
        yield case("scaled_dot_product_attention", *[(qkv, BF16)] * 3, compute=compute)
    yield case("scaled_dot_product_attention", (qkv, BF16), (qkv, BFP8), (qkv, BFP8), compute=_compute("hifi2", False))
    yield case(
        "scaled_dot_product_attention",
        *[(qkv, BF16)] * 3,
        compute=_compute("hifi3", False),
        is_causal=True,
        title="causal",
    )
    for keys in (128, 50):
        few = ((1, 2, keys, 64), BF16)
        mask = ((1, 2, 128, keys), BF16)
        yield case("scaled_dot_product_attention", (qkv, BF16), few, few, mask, compute=_compute("hifi3", False))
    long = ((1, 2, 512, 64), BF16)
    for fidelity in ("hifi3", "lofi"):
        yield case("scaled_dot_product_attention", (qkv, BF16), long, long, compute=_compute(fidelity, False))


def norms() -> Iterator[Case]:
    x, row, deep = (1, 1, 128, 256), (1, 1, 1, 256), (1, 1, 1024, 96)
    for dtype in (BF16, BFP8, F32):
        yield case("softmax", ((1, 1, 128, 512), dtype), compute=_compute("hifi3", True))
        yield case("layer_norm", (x, dtype), (row, BF16), (row, BF16), compute=_compute("hifi3", True))
        yield case("rms_norm", (x, dtype), (row, BF16), compute=_compute("hifi3", dtype is F32))
    for compute in (
        _compute("hifi2", False), _compute("lofi", False), _compute("hifi3", False),
        _compute("hifi3", False, approx=True), _compute("hifi2", True), _compute("lofi", True),
    ):  # fmt: skip
        yield case("softmax", ((1, 1, 128, 512), BF16), compute=compute)
        yield case("layer_norm", (x, BF16), (row, BF16), (row, BF16), compute=compute)
        yield case("rms_norm", (x, BF16), (row, BF16), compute=compute)
    yield case("rms_norm", (x, BF16), (row, BF16), compute=_compute("hifi3", True))
    yield case("layer_norm", (x, BF16), compute=_compute("hifi3", True))
    for compute in (_compute("hifi3", True), _compute("hifi3", False), _compute("hifi2", True), _compute("lofi", True)):
        yield case("group_norm", (deep, BF16), ((96,), BF16), ((96,), BF16), compute=compute, num_groups=8)


WITH_FUNCTIONS = (
    "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "reciprocal", "square", "neg",
    "abs", "log", "erf", "sin", "cos", "hardswish", "relu6", "hardsigmoid", "softsign", "mish",
)  # fmt: skip


def elementwise() -> Iterator[Case]:
    x = (1, 1, 64, 128)
    for dtype in (BF16, BFP8, F32, BFP4):
        for op in ("add", "subtract", "multiply"):
            yield case(op, (x, dtype), (x, dtype))
    for op in ("add", "multiply"):
        yield case(op, (x, BF16), (x, BFP8))
        yield case(op, (x, BFP8), (x, BF16))
        yield case(op, (x, BF16), (x, BF16), result=BFP8)
        yield case(op, (x, BFP8), (x, BFP8), result=BF16)
        yield case(op, (x, BF16), (x, F32))
        yield case(op, (x, BF16), scalar=1.7)
        yield case(op, (x, BF16), ((1, 1, 1, 128), BF16))
        yield case(op, (x, BF16), ((1, 1, 64, 1), BF16))
    yield case("add", (x, BF16), (x, BF16), activations=("relu",), title="relu")
    yield case("add", (x, BF16), (x, BF16), activations=("silu",), title="silu")
    yield case("multiply", (x, BF16), (x, BF16), activations=("gelu",), title="gelu")
    for op in ("divide", "maximum", "minimum", "squared_difference", "pow"):
        yield case(op, (x, BF16), (x, BF16))
    for op in WITH_FUNCTIONS:
        yield case(op, (x, BF16))
    for op in ("relu", "gelu", "silu", "sigmoid", "exp", "rsqrt", "tanh", "square"):
        yield case(op, (x, BFP8))
        yield case(op, (x, F32))
    yield case("leaky_relu", (x, BF16), negative_slope=0.1)
    yield case("clamp", (x, BF16), min=-0.5, max=0.7)
    yield case("pow_scalar", (x, BF16), exponent=2.0)
    yield case("rotary_embedding", ((1, 4, 64, 64), BF16), ((1, 1, 64, 64), BF16), ((1, 1, 64, 64), BF16),
               compute=_compute("hifi3", True))  # fmt: skip


def reductions() -> Iterator[Case]:
    x = (1, 1, 128, 256)
    for op in ("sum", "mean"):
        for dim in (-1, -2):
            for dtype in (BF16, BFP8, F32):
                yield case(op, (x, dtype), compute=_compute("hifi3", True), dim=dim, keepdim=True, title=f"dim {dim}")
        yield case(op, (x, BF16), compute=_compute("hifi2", False), dim=-1, keepdim=True, title="dim -1")
        yield case(op, (x, BF16), compute=_compute("hifi3", False), dim=-1, keepdim=True, title="dim -1")
    yield case("max", (x, BF16), compute=_compute("hifi3", True), dim=-1, keepdim=True, title="dim -1")
    window = {"batch_size": 1, "input_height": 16, "input_width": 16, "kernel_size": (3, 3), "stride": (2, 2),
              "padding": (1, 1, 1, 1), "dilation": (1, 1), "channels": 64}  # fmt: skip
    yield case("max_pool2d", ((1, 1, 256, 64), BF16), rows=True, **window)
    yield case("max_pool2d", ((1, 1, 256, 64), BFP8), **window)
    del window["dilation"]
    yield case("avg_pool2d", ((1, 1, 256, 64), BF16), rows=True, compute=_compute("hifi3", True), **window)
    yield case("avg_pool2d", ((1, 1, 256, 64), BFP8), compute=_compute("hifi3", True), **window)
    yield case("avg_pool2d", ((1, 1, 256, 64), BF16), rows=True, compute=_compute("hifi2", False), **window)
    yield case("global_avg_pool2d", ((1, 8, 8, 64), BF16))
    yield case(
        "upsample", ((1, 8, 8, 64), BF16), scale_factor=(2, 2), mode="bilinear", compute=_compute("hifi3", False)
    )
    for image, grid in ((BF16, F32), (BF16, BF16), (F32, F32)):
        yield case("grid_sample", ((2, 8, 8, 64), image), ((2, 6, 5, 2), grid), rows=True)


def movements() -> Iterator[Case]:
    x = (1, 1, 64, 128)
    for source in (BF16, BFP8, BFP4, F32):
        for target in (BF16, BFP8, BFP4, F32):
            if source is not target:
                yield case("typecast", (x, source), dtype=target.value, title=f"to {target.value}")
    for dtype in (BFP8, BFP4):
        yield case("transpose", (x, dtype), dim0=-2, dim1=-1)
        yield case("concat", (x, dtype), (x, dtype), dim=-1)
        yield case("slice", (x, dtype), begins=(0, 0, 0, 32), ends=(1, 1, 64, 96))
    yield case("permute", ((1, 4, 64, 32), BFP8), dims=(0, 2, 1, 3))
    yield case("reshape", ((1, 1, 64, 128), BFP8), shape=(1, 1, 128, 64))
    yield case("embedding", ((1, 32), DType.U32), ((64, 128), BF16))
    yield case("nlp_create_qkv_heads", ((1, 1, 64, 384), BFP8), num_heads=2, num_kv_heads=2)
    yield case("nlp_concat_heads", ((1, 4, 64, 32), BFP8))


def cases() -> list[Case]:
    """All of them, what matters most first; the same every time."""
    families = (products, elementwise, convolutions, norms, attention, reductions, movements)
    return list({found.name: found for family in families for found in family()}.values())
