"""DRAM: weights that exporters scale stay small, every byte is counted, and what does not fit is refused."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError
from optimizer.export.ttnn_py import ttnn_program
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import ProgramRunner
from optimizer.opmodel.cached import CachedOpModel
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph
from optimizer.verify import verify
from optimizer.verify.dram_rules import PREPARE, RUN

N150 = DeviceSpec.preset("n150")
MOST_PER_PARAMETER = 8
"""DRAM at its fullest per byte of the model's weights: these, those that are made of them, and some activations."""


class Exporter:
    """Convolutions followed by a batch norm that the exporter left as Mul and Add."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.count = itertools.count()

    def weight(self, *shape: int) -> str:
        name = f"w{next(self.count)}"
        self.weights.append(numpy_helper.from_array(np.full(shape, 0.01, np.float32), name))
        return name

    def node(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"n{next(self.count)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attrs))
        return name

    def scaled(self, x: str, channels: int) -> str:
        scale, shift = self.weight(1, channels, 1, 1), self.weight(1, channels, 1, 1)
        return self.node("Add", self.node("Mul", x, scale), shift)

    def conv(self, x: str, cin: int, cout: int, kernel: int = 1) -> str:
        pad = kernel // 2
        made = self.node("Conv", x, self.weight(cout, cin, kernel, kernel), pads=[pad] * 4)
        return self.scaled(made, cout)

    def model(self, output: str, channels: tuple[int, int], side: int) -> bytes:
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, c, side, side])
            for name, c in zip(("x", output), channels, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "net", ends[:1], ends[1:], self.weights)
        return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())


def detection_backbone() -> bytes:
    """The last stage of a detector's ResNet: frozen norms as constants [1, C, 1, 1]."""
    net, x = Exporter(), "x"
    for cin in (1024, 2048):
        inner = net.node("Relu", net.conv(x, cin, 512))
        inner = net.node("Relu", net.conv(inner, 512, 512, 3))
        inner = net.conv(inner, 512, 2048)
        x = net.node("Relu", net.node("Add", inner, net.conv(x, cin, 2048)))
    return net.model(x, (1024, 2048), 8)


def dense_block() -> bytes:
    """Layers that read everything before them: 1x1 to 128 channels, 3x3 to 32 more."""
    net, x, channels = Exporter(), "x", 256
    for _ in range(6):
        inner = net.node("Relu", net.scaled(x, channels))
        inner = net.node("Relu", net.conv(inner, channels, 128))
        new = net.conv(inner, 128, 32, 3)
        x, channels = net.node("Concat", x, new, axis=1), channels + 32
    return net.model(x, (256, channels), 14)


def placed(source: bytes, **options: object) -> OptimizedGraph:
    return optimize_file(source, Options.from_mapping({"board": "n150", "policy": "dfsharding", **options}))


@pytest.mark.parametrize("network", [detection_backbone, dense_block])
def test_scaled_convolution_weights_take_little_dram(network: object) -> None:
    result = placed(network())  # type: ignore[operator]

    peak = result.summary.dram_peak_bank_bytes * N150.dram_banks
    weights = 2 * result.model["import"]["parameter_count"]
    assert weights < peak < MOST_PER_PARAMETER * weights
    assert result.model["import"]["fused"]["conv-batch-norm"] > 0


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("network", [detection_backbone, dense_block])
def test_tt_metal_takes_weights_scaled_as_rows(network: object) -> None:
    check = placed(network(), check="ttmetal").summary.check  # type: ignore[operator]

    assert (check.ok, check.refused) == (True, ())


def linears(count: int, width: int) -> Graph:
    b = GraphBuilder("linears")
    v = b.input("x", (1, 1, 32, width))
    for k in range(count):
        v = b.op("ttnn.linear", v, b.parameter(f"w{k}", (width, width)), name=f"linear{k}")
    return b.finish(v)


def solved(graph: Graph) -> OptimizedGraph:
    return optimize(graph, N150, Options.from_mapping({"policy": "dram"}))


def test_a_model_that_dram_does_not_hold_is_refused() -> None:
    with pytest.raises(InfeasibleError, match=r"DRAM does not hold .* the largest: 'w0' 2147\d+ B") as caught:
        solved(linears(7, 32768))

    assert caught.value.limit == N150.dram_banks * N150.dram_bank_bytes


def test_weights_that_swell_while_they_are_prepared_are_refused() -> None:
    b = GraphBuilder("swollen")
    x = b.input("x", (1, 1, 64, 1024))
    for k in range(6):
        w = b.op("ttnn.multiply", b.parameter(f"w{k}", (1024, 1024, 1, 1)), b.parameter(f"s{k}", (1024, 1, 1, 1)))
        image = {"batch_size": 1, "input_height": 8, "input_width": 8, "kernel_size": (1, 1)}
        x = b.op("ttnn.conv2d", x, w, name=f"conv{k}", in_channels=1024, out_channels=1024, **image)
    graph = b.finish(x)

    with pytest.raises(InfeasibleError, match="while weights are prepared"):
        solved(graph)


def test_every_value_is_counted_with_its_padding() -> None:
    result = solved(linears(2, 1000))

    report = verify(result, CachedOpModel(AnalyticalOpModel(N150, result.options.l1_small_bytes)))
    tile = 2048
    weight = -(-32 * 32 // N150.dram_banks) * tile
    rows = -(-32 // N150.dram_banks) * tile
    assert [step.phase for step in report.dram_steps] == [RUN, RUN]
    assert [step.total_bytes for step in report.dram_steps] == [2 * weight + 2 * rows, 2 * weight + 3 * rows]
    assert report.dram_steps[0].largest[:2] == (("w0", weight), ("w1", weight))
    assert result.summary.dram_peak_bank_bytes == report.peak_dram_bank_bytes
    assert result.summary.dram_bank_bytes == N150.dram_bank_bytes


def test_weights_that_are_only_prepared_from_are_freed() -> None:
    b = GraphBuilder("square")
    factor = b.op("ttnn.multiply", b.parameter("w", (1024, 1024)), b.parameter("s", (1, 1024)), name="scale")
    result = solved(b.finish(b.op("ttnn.matmul", b.input("x", (1, 1, 32, 1024)), factor, name="product")))

    report = verify(result, CachedOpModel(AnalyticalOpModel(N150, result.options.l1_small_bytes)))
    tile, banks = 2048, N150.dram_banks
    weight, rows = (-(-count // banks) * tile for count in (prod((32, 32)), 32))
    assert [(s.phase, s.op, s.total_bytes) for s in report.dram_steps] == [
        (PREPARE, "scale", 2 * weight + rows),
        (RUN, "product", weight + 2 * rows),
    ]


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_run_holds_in_dram_what_is_counted(board: str) -> None:
    result = placed(detection_backbone(), board=board)
    judge = registry.create("ttmetal", result.device, result.options.l1_small_bytes)
    report = verify(result, CachedOpModel(AnalyticalOpModel(result.device, result.options.l1_small_bytes)))
    counted = {step.op: step.total_bytes for step in report.dram_steps if step.phase == RUN}
    program = ttnn_program(result)
    assert isinstance(judge, ProgramRunner)
    differ = []
    with judge.program(program.prelude) as session:
        for step in (*program.parameter_steps, *program.run_steps):
            assert session.step(step.code).valid
            if step.op in counted:
                view = "ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank"
                answer = session.step(f"assert {view} == {counted[step.op]}, {view}")
                differ += [] if answer.valid else [(step.op, counted[step.op], answer.error)]
            for line in step.frees:
                session.step(line)
    assert differ == []
