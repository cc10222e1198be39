"""Sensitivities by one pass backwards, against noise injected tensor by tensor and against what is known."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.values.injected import injected
from optimizer.values.judged import Part
from optimizer.values.random_arrays import random_inputs, random_weights
from optimizer.values.reference.kinds import Array
from optimizer.values.sensitivity import measure


def arrays(graph: Graph) -> dict[str, Array]:
    return {**random_weights(graph, 0), **random_inputs(graph, 0)}


def attention_block() -> Graph:
    """Norm, heads, attention, projection, and a gated feed-forward, each added to what came in."""
    b = GraphBuilder("block")
    x = b.input("x", (1, 32, 64))
    table = b.parameter("table", (1, 32, 64))
    x = b.op("ttnn.add", x, table, name="placed")
    n = b.op("ttnn.layer_norm", x, b.parameter("scale", (64,)), b.parameter("shift", (64,)), name="norm")
    qkv = b.op("ttnn.linear", n, b.parameter("w_qkv", (64, 192)), name="qkv")
    q, k, v = b.ops("ttnn.split_query_key_value_and_split_heads", qkv, num_heads=4, name="heads")
    a = b.op("ttnn.scaled_dot_product_attention", q, k, v, is_causal=True, name="attention")
    a = b.op("ttnn.linear", b.op("ttnn.concatenate_heads", a, name="joined"), b.parameter("w_o", (64, 64)), name="out")
    x = b.op("ttnn.add", x, a, name="after_attention")
    up = b.op("ttnn.linear", x, b.parameter("w_up", (64, 128)), activation="gelu", name="up")
    gate = b.op("ttnn.linear", x, b.parameter("w_gate", (64, 128)), name="gate")
    h = b.op("ttnn.multiply", gate, up, input_tensor_a_activations=("silu",), name="gated")
    x = b.op("ttnn.add", x, b.op("ttnn.linear", h, b.parameter("w_down", (128, 64)), name="down"), name="last")
    return b.finish(b.op("ttnn.softmax", x, name="shares"))


def convolutions() -> Graph:
    """Two branches of convolutions, a pool, a concat, an upsampling and group norm."""
    b = GraphBuilder("convolutions")
    shared = {"batch_size": 1, "stride": (1, 1), "dilation": (1, 1)}
    x = b.input("x", (1, 1, 256, 16))
    size = {"input_height": 16, "input_width": 16}
    a = b.op("ttnn.conv2d", x, b.parameter("w1", (32, 16, 3, 3)), in_channels=16, out_channels=32, kernel_size=(3, 3),
             padding=(1, 1, 1, 1), groups=1, activation="relu", name="conv", **size, **shared)  # fmt: skip
    a = b.op("ttnn.group_norm", a, b.parameter("scale", (1, 1, 1, 32)), b.parameter("shift", (1, 1, 1, 32)),
             num_groups=8, name="norm")  # fmt: skip
    d = b.op("ttnn.conv2d", a, b.parameter("w2", (32, 1, 3, 3)), in_channels=32, out_channels=32, kernel_size=(3, 3),
             padding=(1, 1, 1, 1), groups=32, name="depthwise", **size, **shared)  # fmt: skip
    joined = b.op("ttnn.concat", d, x, dim=3, name="joined")
    p = b.op("ttnn.max_pool2d", joined, batch_size=1, channels=48, kernel_size=(2, 2), stride=(2, 2),
             padding=(0, 0, 0, 0), name="pool", **size)  # fmt: skip
    image = b.op("ttnn.reshape", p, shape=(1, 8, 8, 48), name="image")
    return b.finish(b.op("ttnn.upsample", image, scale_factor=(2, 2), name="larger"))


@pytest.mark.parametrize("graph", [attention_block(), convolutions()], ids=lambda graph: graph.name)
def test_they_are_those_of_injected_noise(graph: Graph) -> None:
    given = arrays(graph)
    expected = injected(graph, given, draws=8)

    found = measure(graph, given)

    assert list(found.of) == list(expected)
    assert found.by_noise == ()
    assert min(expected.values()) > 1e-3
    for value_id, size in expected.items():
        assert found.of[value_id] == pytest.approx(size, rel=0.25), value_id


def test_an_error_counts_by_the_square_of_its_factor() -> None:
    b = GraphBuilder("sum")
    x, y = b.input("x", (64, 64)), b.input("y", (64, 64))
    graph = b.finish(b.op("ttnn.add", x, b.op("ttnn.multiply", y, scalar=3.0)))

    found = measure(graph, arrays(graph)).of

    assert found["y"] / found["x"] == pytest.approx(9.0, rel=0.1)
    assert found["x"] + found["y"] == pytest.approx(1.0, rel=0.1)


def test_what_a_correlation_does_not_see_counts_nothing() -> None:
    b = GraphBuilder("shift")
    x, shift = b.input("x", (64, 64)), b.input("shift", (1, 1))
    graph = b.finish(b.op("ttnn.add", x, shift))

    found = measure(graph, arrays(graph)).of

    assert found["shift"] < 1e-9 * found["x"]


def test_masks_and_what_reaches_no_output_count_nothing() -> None:
    b = GraphBuilder("masked")
    x, mask, other = b.input("x", (32, 64)), b.input("mask", (1, 64)), b.input("other", (32, 64))
    unread = b.op("ttnn.exp", other, name="unread")
    chosen = b.op("ttnn.argmax", b.op("ttnn.add", x, mask, name="scores"), dim=-1, name="chosen")
    graph = b.finish(b.op("ttnn.softmax", "scores_out", name="shares"), chosen)
    given = arrays(graph) | {"mask": np.where(np.arange(64) < 40, 0.0, -3e38)[None, :]}

    found = measure(graph, given).of

    assert found["mask"] == found["other"] == found[unread] == 0.0
    assert found["x"] > 0.1
    assert chosen not in found


def test_before_an_op_without_a_rule_they_are_measured_by_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = attention_block()
    given = arrays(graph)
    whole = measure(graph, given)
    expected = injected(graph, given)
    monkeypatch.delitem(families.table("ADJOINTS"), "ttnn.layer_norm")

    found = measure(graph, given)

    assert found.by_noise == ("norm",)
    assert {v for v in found.of if found.of[v] != whole.of[v]} == {"x", "placed_out"}
    assert all(found.of[v] == expected[v] for v in ("x", "placed_out"))


def test_outputs_of_few_elements_have_more_probes_and_only_the_largest_are_seen() -> None:
    b = GraphBuilder("outputs")
    x = b.input("x", (64, 64))
    outputs = [b.op("ttnn.slice", x, begins=(0, 0), ends=(n, 2), name=f"first{n}") for n in (2, 32, 40, 48, 5, 50, 52)]
    graph = b.finish(*outputs)

    found = measure(graph, arrays(graph))

    probes = {6: 4, 5: 4, 3: 4, 2: 4, 1: 4, 4: 7}
    assert found.probes == {Part(outputs[k]): count for k, count in probes.items()}
    assert found.judged == tuple(map(Part, outputs))


def test_the_same_seed_gives_the_same_numbers() -> None:
    graph = convolutions()
    given = arrays(graph)

    assert measure(graph, given, seed=3) == measure(graph, given, seed=3) != measure(graph, given, seed=4)


def test_weights_are_prepared_once_and_have_none() -> None:
    b = GraphBuilder("prepared")
    w = b.op("ttnn.transpose", b.parameter("w", (16, 64)), dim0=0, dim1=1, name="turned")
    graph = b.finish(b.op("ttnn.matmul", b.input("x", (32, 64)), w, name="product"))

    assert list(measure(graph, arrays(graph)).of) == ["x", "product_out"]


def test_what_is_asked_between_ops_may_stop_it() -> None:
    class Stopped(Exception):
        pass

    def poll() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        measure(convolutions(), arrays(convolutions()), poll=poll)


def test_an_output_without_spread_is_refused() -> None:
    b = GraphBuilder("flat")
    graph = b.finish(b.op("ttnn.multiply", b.input("x", (8, 8)), scalar=0.0))

    with pytest.raises(ExecutionError, match="correlation"):
        measure(graph, arrays(graph))


def test_an_output_that_is_no_number_is_named() -> None:
    b = GraphBuilder("log")
    graph = b.finish(b.op("ttnn.log", b.input("x", (8, 8)), name="logs"))

    with pytest.raises(ExecutionError, match=r"output 'logs_out' is not a number"):
        measure(graph, arrays(graph))


def test_integers_have_none() -> None:
    b = GraphBuilder("tokens")
    ids = b.input("ids", (1, 32), DType.U32)
    row = b.op("ttnn.embedding", ids, b.parameter("table", (50, 64)), name="rows")
    graph = b.finish(b.op("ttnn.softmax", row, name="shares"))

    assert list(measure(graph, arrays(graph)).of) == ["rows_out", "shares_out"]
