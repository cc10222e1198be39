"""Products and reads that no run gets around, against counting one by one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.ir import compulsory
from optimizer.ir.compulsory import Products
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import op_names, opdef
from tests.samples import examples

WINDOWS = st.fixed_dictionaries({
    "batch_size": st.integers(1, 2),
    "input_height": st.integers(1, 9),
    "input_width": st.integers(1, 9),
    "kernel_size": st.tuples(st.integers(1, 4), st.integers(1, 4)),
    "stride": st.tuples(st.integers(1, 3), st.integers(1, 3)),
    "dilation": st.tuples(st.integers(1, 2), st.integers(1, 2)),
    "padding": st.tuples(*[st.integers(0, 3)] * 4),
    "groups": st.sampled_from([1, 2, 4]),
    "in_channels": st.sampled_from([4, 8]),
    "out_channels": st.sampled_from([4, 12]),
    "output_padding": st.just((0, 0)),
})  # fmt: skip


def _results(attrs, axis: int) -> int:
    size = (attrs["input_height"], attrs["input_width"])[axis]
    reach = attrs["dilation"][axis] * (attrs["kernel_size"][axis] - 1) + 1
    return (size + sum(attrs["padding"][2 * axis : 2 * axis + 2]) - reach) // attrs["stride"][axis] + 1


def _on_image(attrs, axis: int, results: int, size: int) -> int:
    before, stride, dilation = attrs["padding"][2 * axis], attrs["stride"][axis], attrs["dilation"][axis]
    at = [o * stride + k * dilation - before for o in range(results) for k in range(attrs["kernel_size"][axis])]
    return sum(0 <= place < size for place in at)


@settings(max_examples=examples(200))
@given(WINDOWS)
def test_a_convolution_multiplies_where_its_windows_lie_on_the_image(attrs) -> None:
    sizes = (attrs["input_height"], attrs["input_width"])
    rows, columns = _results(attrs, 0), _results(attrs, 1)
    if rows > 0 and columns > 0:
        taps = _on_image(attrs, 0, rows, sizes[0]) * _on_image(attrs, 1, columns, sizes[1])
        each = attrs["in_channels"] * attrs["out_channels"] // attrs["groups"]
        found = compulsory.conv2d(attrs, ())
        assert found.multiply_adds == attrs["batch_size"] * taps * each
        assert found.multiply_adds <= found.tile_products * 32**3


@settings(max_examples=examples(200))
@given(WINDOWS)
def test_a_transposed_convolution_multiplies_what_lands_on_its_result(attrs) -> None:
    sizes = (attrs["input_height"], attrs["input_width"])
    results = [
        (sizes[i] - 1) * attrs["stride"][i]
        - sum(attrs["padding"][2 * i : 2 * i + 2])
        + attrs["dilation"][i] * (attrs["kernel_size"][i] - 1)
        + 1
        for i in (0, 1)
    ]
    if min(results) > 0:
        taps = _on_image(attrs, 0, sizes[0], results[0]) * _on_image(attrs, 1, sizes[1], results[1])
        each = attrs["in_channels"] * attrs["out_channels"] // attrs["groups"]
        assert compulsory.conv_transpose2d(attrs, ()).multiply_adds == attrs["batch_size"] * taps * each


def test_a_depthwise_convolution_has_the_tiles_of_a_diagonal() -> None:
    attrs = {"batch_size": 1, "input_height": 8, "input_width": 8, "kernel_size": (3, 3), "stride": (1, 1),
             "dilation": (1, 1), "padding": (1, 1, 1, 1), "groups": 64, "in_channels": 64,
             "out_channels": 64}  # fmt: skip
    assert compulsory.conv2d(attrs, ()) == Products(22 * 22 * 64, 2 * (2 * 9) * 2)


def test_a_matmul_counts_batches_once_however_they_are_broadcast() -> None:
    found = compulsory.matmul({}, ((4, 1, 20, 40), (3, 40, 70)))
    assert found == Products(12 * 20 * 40 * 70, 12 * 1 * 2 * 3)
    turned = compulsory.matmul({"transpose_a": True, "transpose_b": True}, ((40, 20), (70, 40)))
    assert turned == Products(20 * 40 * 70, 1 * 2 * 3)


def test_attention_leaves_out_the_keys_after_a_query() -> None:
    shapes = ((2, 4, 64, 32), (2, 2, 64, 32), (2, 2, 64, 48))
    pairs = sum(key <= query for query in range(64) for key in range(64))
    assert compulsory.attention({"is_causal": True}, shapes) == Products(2 * 4 * pairs * 80, 2 * 4 * 3 * 3)
    assert compulsory.attention({}, shapes) == Products(2 * 4 * 64 * 64 * 80, 2 * 4 * 4 * 3)


def test_a_decode_step_reads_what_its_caches_hold() -> None:
    shapes, attrs = ((1, 2, 8, 64), (2, 4, 256, 64), (2, 4, 256, 64)), {"cur_pos": (31, 99)}
    assert compulsory.attention_decode(attrs, shapes) == Products(132 * 8 * 2 * 64, (1 + 4) * 1 * 2 * 2)
    assert compulsory.cached(attrs, 1, shapes, (shapes[0],)) == 132 * 4 * 64
    assert compulsory.cached({"cur_pos": 500}, 2, shapes, (shapes[0],)) == 2 * 256 * 4 * 64
    assert compulsory.cached(attrs, 0, shapes, (shapes[0],)) == 2 * 8 * 64


def test_what_selects_reads_no_more_than_it_gives() -> None:
    assert compulsory.looked_up({}, 1, ((1, 16), (50000, 64)), ((1, 16, 64),)) == 16 * 64
    assert compulsory.looked_up({}, 0, ((1, 16), (50000, 64)), ((1, 16, 64),)) == 16
    assert compulsory.selected({}, 0, ((64, 64),), ((64, 8), (64, 8))) == 64 * 16
    assert compulsory.selected({}, 0, ((64, 64),), ((64, 32), (64, 32))) == 64 * 64


def test_every_op_of_the_matrix_engine_says_what_it_multiplies() -> None:
    multiply = {name for name in op_names() if opdef(name).cost_class in ("matmul", "conv", "sdpa")}
    assert {name for name in op_names() if opdef(name).products is not None} == multiply
    assert opdef("ttnn.relu").must_read({}, 0, ((3, 5),), ((3, 5),)) == 15
    assert opdef(Op("x", "onnx.Foo", (), ()).op).products is None
