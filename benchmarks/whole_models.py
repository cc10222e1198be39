"""Kernel times of tt-metal's published networks: predicted against published, with a breakdown.

    python benchmarks/whole_models.py [e2e_published.csv] [--ops NETWORK]

The networks are transcribed from tt-metal's own implementations (`models/demos`): the sharding, element types and
fidelity of every op are theirs, not the optimizer's choice, so that the cost model alone is judged. With the table of
published figures as argument, its rows (`model`, `batch`, `device`, `unit`, `value`) are set beside the predictions.
`--ops` lists the ops of one network. Exits 1 when a figure for kernels alone is missed by more than 25 %.

Then come networks as ttopt itself imports and lays them out (`OWN`): model and optimizer together, beside what is
published of tt-metal's implementation.

Not modelled: host work, transfers of inputs and results, sampling. Published figures of whole runs include them.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from llama_decode import llama_decode

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.layouts.memory_config import (
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import (
    Conv2dConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    OpConfig,
)
from optimizer.layouts.tiling import TILE, ceil_div, core_ranges_for
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.timing import constants
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file

ALLOWED = 0.25
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "onnx"
DRAM = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)
Step = tuple[str, OpQuery]


def tensor(shape: tuple[int, ...], memory: MemoryConfig, dtype: DType = DType.BFP8_B, tiled: bool = True) -> TensorSpec:
    page = PageLayout.TILE if tiled else PageLayout.ROW_MAJOR
    return TensorSpec(shape, dtype, TensorLayout(page, memory))


def height(device: DeviceSpec, cores: int, rows: int, columns: int) -> MemoryConfig:
    kind = TensorMemoryLayout.HEIGHT_SHARDED
    spec = ShardSpec((cores, 1), (rows, columns), core_ranges_for(kind, (cores, 1), device))
    return MemoryConfig(kind, BufferType.L1, spec)


def block(rows: int, columns: int, shard: tuple[int, int]) -> MemoryConfig:
    spec = ShardSpec((rows, columns), shard, ((0, 0, columns - 1, rows - 1),))
    return MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1, spec)


@dataclass(frozen=True)
class Stage:
    """Pixels of one size in shards."""

    device: DeviceSpec
    batch: int
    side: int
    blocks: bool

    @property
    def rows(self) -> int:
        return ceil_div(self.batch * self.side**2, TILE)

    def memory(self, channels: int) -> MemoryConfig:
        """As tt-metal spreads it: rows over as many cores as divide them, or rows and channels over the grid."""
        y, x = self.device.grid_yx
        if self.blocks:
            each = ceil_div(self.rows, y)
            across = max(n for n in range(1, x + 1) if channels % (n * TILE) == 0)
            return block(ceil_div(self.rows, each), across, (each * TILE, channels // across))
        each = ceil_div(self.rows, self.device.num_cores)
        return height(self.device, ceil_div(self.rows, each), each * TILE, channels)

    def tensor(self, channels: int) -> TensorSpec:
        return tensor((1, 1, self.batch * self.side**2, channels), self.memory(channels))


def _conv(stage: Stage, cin: int, cout: int, kernel: int, stride: int) -> OpQuery:
    attrs: dict[str, Attr] = {
        "batch_size": stage.batch, "input_height": stage.side, "input_width": stage.side,
        "kernel_size": (kernel, kernel), "stride": (stride, stride), "padding": (kernel // 2,) * 4,
        "dilation": (1, 1), "in_channels": cin, "out_channels": cout, "groups": 1, "math_fidelity": "lofi",
    }  # fmt: skip
    layout = TensorMemoryLayout.BLOCK_SHARDED if stage.blocks else TensorMemoryLayout.HEIGHT_SHARDED
    config = Conv2dConfig(weights_dtype="bfp8_b", shard_layout=layout.value, slice="l1")
    weight = TensorSpec((cout, cin, kernel, kernel), DType.BF16, TensorLayout(PageLayout.ROW_MAJOR, HOST))
    return OpQuery("ttnn.conv2d", (stage.tensor(cin), weight), tuple(attrs.items()), config, None, DType.BFP8_B)


HOST = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.HOST)


def resnet50(device: DeviceSpec, batch: int) -> Iterator[Step]:
    """`ttnn_functional_resnet50_new_conv_api`: the first layer folded on the host, BFP8, LoFi, all in L1."""
    first = Stage(device, batch, 112, False)
    folded = tensor((1, 1, batch * 115 * 115, 16), _folded(device, batch), DType.BF16, tiled=False)
    attrs: dict[str, Attr] = {
        "batch_size": batch, "input_height": 115, "input_width": 115, "kernel_size": (4, 4), "stride": (1, 1),
        "padding": (0, 0, 0, 0), "dilation": (1, 1), "in_channels": 16, "out_channels": 64, "groups": 1,
        "math_fidelity": "lofi",
    }  # fmt: skip
    config = Conv2dConfig(weights_dtype="bfp8_b", shard_layout="height_sharded", slice="l1", act_block_h_override=64)
    weight = TensorSpec((64, 16, 4, 4), DType.BF16, TensorLayout(PageLayout.ROW_MAJOR, HOST))
    yield "stem", OpQuery("ttnn.conv2d", (folded, weight), tuple(attrs.items()), config, None, DType.BFP8_B)
    pool: dict[str, Attr] = {
        "batch_size": batch, "input_height": 112, "input_width": 112, "kernel_size": (3, 3), "stride": (2, 2),
        "padding": (1, 1, 1, 1), "dilation": (1, 1), "channels": 64, "ceil_mode": False,
    }  # fmt: skip
    pooled = tensor((1, 1, batch * 112 * 112, 64), first.memory(64), DType.BF16, tiled=False)
    yield "stem", OpQuery("ttnn.max_pool2d", (pooled,), tuple(pool.items()))
    cin, side = 64, 56
    for layer, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), start=1):
        for index in range(count):
            stride = 2 if index == 0 and layer > 1 else 1
            now = Stage(device, batch, side, layer > 2)
            after = Stage(device, batch, side // stride, layer > 2)
            if index == 0 and layer == 3:
                rows = Stage(device, batch, side, False)
                yield f"layer{layer}", OpQuery("ttnn.to_memory_config", (rows.tensor(cin),), (), None, now.memory(cin))
            name = f"layer{layer}"
            yield name, _conv(now, cin, width, 1, 1)
            yield name, _conv(now, width, width, 3, stride)
            yield name, _conv(after, width, 4 * width, 1, 1)
            if index == 0:
                yield name, _conv(now, cin, 4 * width, 1, stride)
            both = (after.tensor(4 * width),) * 2
            yield name, OpQuery("ttnn.add", both, (("activations", ("relu",)),), None, after.memory(4 * width))
            cin, side = 4 * width, side // stride
    last = Stage(device, batch, 7, True)
    yield "head", OpQuery("ttnn.mean", (last.tensor(2048),), (("dim", -2), ("keepdim", True)))
    head = (tensor((batch, 2048), DRAM), tensor((2048, 1000), DRAM))
    yield "head", OpQuery("ttnn.linear", head, (("math_fidelity", "lofi"),))


def _folded(device: DeviceSpec, batch: int) -> MemoryConfig:
    each = ceil_div(batch * 115 * 115, device.num_cores)
    return height(device, ceil_div(batch * 115 * 115, each), each, 16)


@dataclass(frozen=True)
class Encoder:
    """A transformer encoder in block shards."""

    layers: int
    hidden: int
    heads: int
    inner: int
    tokens: int
    """Padded to tiles."""


def encoder(sizes: Encoder, fidelity: str) -> Callable[[DeviceSpec, int], Iterator[Step]]:
    def steps(device: DeviceSpec, batch: int) -> Iterator[Step]:
        for _ in range(sizes.layers):
            yield from _layer(device, batch, sizes, fidelity)

    return steps


def _layer(device: DeviceSpec, batch: int, s: Encoder, fidelity: str) -> Iterator[Step]:
    """`ttnn_optimized_sharded_vit_wh`, `bert_encoder`: linears as 2D multicast, attention in height shards."""
    rows, across = batch * s.tokens // TILE, 8
    down = device.grid_yx[0]
    each = ceil_div(rows, down)
    size = s.tokens // TILE

    def shards(columns: int) -> MemoryConfig:
        return block(ceil_div(rows, each), across, (each * TILE, ceil_div(columns // TILE, across) * TILE))

    def linear(k: int, n: int, activation: str | None = None) -> OpQuery:
        wide = ceil_div(n // TILE, across)
        sub = next(w for w in (8, 6, 5, 4, 3, 2, 1) if wide % w == 0)
        depth = ceil_div(k // TILE, across)
        config = MatmulMultiCoreReuseMultiCastProgramConfig(
            (down, across), depth, 1, sub, each, wide, False, activation
        )
        inputs = (tensor((batch, s.tokens, k), shards(k)), tensor((k, n), DRAM))
        return OpQuery("ttnn.linear", inputs, (("math_fidelity", fidelity),), config, shards(n))

    matrices = batch * s.heads
    cores = max(n for n in range(1, device.num_cores + 1) if matrices % n == 0)

    def product(k: int, n: int) -> OpQuery:
        each_core = matrices // cores * size
        config: OpConfig = MatmulMultiCoreReuseProgramConfig(device.grid_yx, k, 1, _sub(n), each_core, n)
        inputs = (
            tensor((batch, s.heads, s.tokens, k * TILE), height(device, cores, matrices // cores * s.tokens, k * TILE)),
            tensor((batch, s.heads, k * TILE, n * TILE), DRAM),
        )
        out = height(device, cores, matrices // cores * s.tokens, n * TILE)
        return OpQuery("ttnn.matmul", inputs, (("math_fidelity", fidelity),), config, out)

    x = tensor((batch, s.tokens, s.hidden), shards(s.hidden))
    head = s.hidden // s.heads // TILE
    scores = tensor((batch, s.heads, s.tokens, s.tokens), height(device, cores, matrices // cores * s.tokens, s.tokens))
    qkv = tensor((batch, s.tokens, 3 * s.hidden), DRAM)
    yield "norm", OpQuery("ttnn.layer_norm", (x,), (), None, shards(s.hidden))
    yield "qkv", linear(s.hidden, 3 * s.hidden)
    yield "heads", OpQuery("ttnn.split_query_key_value_and_split_heads", (qkv,), (("num_heads", s.heads),))
    yield "attention", product(head, size)
    yield "softmax", OpQuery("ttnn.softmax", (scores,), (("dim", -1),), None, scores.layout.memory)
    yield "attention", product(size, head)
    yield "heads", OpQuery("ttnn.concatenate_heads", (tensor((batch, s.heads, s.tokens, head * TILE), DRAM),))
    yield "output", linear(s.hidden, s.hidden)
    yield "add", OpQuery("ttnn.add", (x, x), (), None, shards(s.hidden))
    yield "norm", OpQuery("ttnn.layer_norm", (x,), (), None, shards(s.hidden))
    yield "feed forward", linear(s.hidden, s.inner, "gelu")
    yield "feed forward", linear(s.inner, s.hidden)
    yield "add", OpQuery("ttnn.add", (x, x), (), None, shards(s.hidden))


def _sub(width: int) -> int:
    return next(w for w in (8, 6, 4, 3, 2, 1) if width % w == 0)


@dataclass(frozen=True)
class Network:
    """A network with the published row that it is compared with."""

    name: str
    board: str
    batch: int
    build: Callable[[DeviceSpec, int], Iterator[Step]]
    published: str
    """Column `model` of the published row."""
    device: str
    kernels_only: bool


BERT_LARGE = Encoder(24, 1024, 16, 4096, 384)
VIT_BASE = Encoder(12, 768, 12, 3072, 224)
NETWORKS = (
    Network("ResNet-50", "n150", 16, resnet50, "ResNet-50 224 device-only", "n150", True),
    Network("ResNet-50", "p150", 16, resnet50, "ResNet-50 224 device-only", "blackhole", True),
    Network("ResNet-50", "p150", 32, resnet50, "ResNet-50 224 device-only", "blackhole", True),
    Network("BERT-Large s384", "n150", 8, encoder(BERT_LARGE, "lofi"), "BERT-Large s384", "n150", False),
    Network("ViT-base", "n150", 8, encoder(VIT_BASE, "lofi"), "ViT-base 224", "n150", False),
    Network("ViT-base", "p150", 10, encoder(VIT_BASE, "lofi"), "ViT-base 224", "p150", False),
)


def price(network: Network, listed: bool) -> tuple[float, int, Counter[str], int]:
    """(kernel nanoseconds, programs, nanoseconds by section, ops that the rules refuse as transcribed)."""
    model = registry.create("analytical", DeviceSpec.preset(network.board))
    total, programs, refused = 0.0, 0, 0
    sections: Counter[str] = Counter()
    for section, query in network.build(model.device, network.batch):
        answer, cost = model.constraints(query), model.cost(query)
        refused += not answer.valid
        total += cost.time_ns
        programs += len(cost.parts)
        sections[section] += cost.time_ns
        if listed:
            shapes = " ".join("x".join(map(str, t.shape)) for t in query.inputs)
            note = "" if answer.valid else f"  REFUSED: {answer.error}"
            print(f"  {section:14s} {query.op:42s} {cost.time_ns / 1e3:9.1f} us  {cost.bound:8s} {shapes}{note}")
    return total, programs, sections, refused


@dataclass(frozen=True)
class Own:
    """A graph as ttopt lays it out, and the published figure that comes nearest."""

    name: str
    """A fixture, or `llama_decode`."""
    board: str
    published: str
    batch: int
    options: dict[str, str]
    note: str


OWN = (
    Own("mobilenetv2_legacy17", "n150", "MobileNetV2 device-only", 1, {"weights_dtype": "bfp8_b"}, "device alone"),
    Own(
        "llama32_1b_16l_dynamo20", "n150", "Llama-3.2-1B TTFT", 32,
        {"weights_dtype": "bfp8_b", "math_fidelity": "hifi2"},
        "prefill of one user; published until the first token, host work and sampling included",
    ),
    Own(
        "llama_decode", "n150", "Llama-3.2-1B decode", 1, {"weights_dtype": "bfp8_b", "math_fidelity": "hifi2"},
        "whole step of 32 users; ours without rotary embedding, cache updates, host work and sampling",
    ),
)  # fmt: skip


def own_plans(figures: dict[tuple[str, int, str], float]) -> None:
    """Prints each network of `OWN`: predicted kernels, with a trace, and the published time."""
    for own in OWN:
        options = Options.from_mapping({"board": own.board, "policy": "global", **own.options})
        if own.name == "llama_decode":
            summary = optimize(llama_decode(), DeviceSpec.preset(own.board), options).summary
        else:
            summary = optimize_file(FIXTURES / f"{own.name}.onnx", options).summary
        kernels, traced = summary.predicted_time_ns, summary.traced_ns
        times = f"kernels {kernels / 1e6:.3f} ms, {traced / 1e6:.3f} ms traced"
        print(f"{own.name} laid out by ttopt, {own.board}: {times}")
        real = figures.get((own.published, own.batch, own.board))
        if real is not None:
            print(f"  published ({own.note}): {real / 1e6:.3f} ms; predicted {100 * (traced / real - 1):+.0f} %")


def published(path: Path | None) -> dict[tuple[str, int, str], float]:
    """Nanoseconds of one run by (model, batch, device), of rows in items per second or ms."""
    if path is None:
        return {}
    figures = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key, value = (row["model"], int(row["batch"]), row["device"]), float(row["value"])
            if row["unit"] == "ms":
                figures[key] = 1e6 * value
            elif row["unit"] == "t/s/u":  # each user's tokens: a step of the whole batch
                figures[key[0], 1, key[2]] = 1e9 / value
            elif row["unit"].endswith("/s"):
                figures[key] = 1e9 * key[1] / value
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", type=Path, nargs="?", metavar="e2e_published.csv")
    parser.add_argument("--ops", metavar="NETWORK", help="list the ops of networks whose name starts so")
    options = parser.parse_args()
    figures, missed = published(options.figures), 0
    for network in NETWORKS:
        total, programs, sections, refused = price(network, bool(options.ops) and network.name.startswith(options.ops))
        arch = DeviceSpec.preset(network.board).arch
        gaps = constants(arch)["gap_ns"] * programs
        rate = 1e9 * network.batch / total
        print(
            f"{network.name}, batch {network.batch}, {network.board}: kernels {total / 1e6:.3f} ms ({rate:.0f} items/s)"
        )
        print(f"  {programs} programs, {(total + gaps) / 1e6:.3f} ms from a trace")
        shares = ", ".join(f"{name} {100 * ns / total:.0f} %" for name, ns in sections.most_common())
        print(f"  {shares}" + (f"; {refused} ops are refused as transcribed" if refused else ""))
        real = figures.get((network.published, network.batch, network.device))
        if real is not None:
            ours = total if network.kernels_only else total + gaps
            kind = "kernels alone" if network.kernels_only else "whole run"
            print(f"  published ({kind}): {real / 1e6:.3f} ms; predicted {100 * (ours / real - 1):+.0f} %")
            missed += network.kernels_only and abs(ours / real - 1) > ALLOWED
    own_plans(figures)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
