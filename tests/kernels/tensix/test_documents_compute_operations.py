"""The examples of the design document on compute operations, section by section.

Text is the document's but for what it leaves open: values have a `%`, comments `//`, reductions and broadcasts the
`axis` that their definitions demand, and what a region reads is among its `ins`.
"""

from __future__ import annotations

import numpy as np
import pytest
from document_programs import around

from optimizer.errors import FormatError, GraphError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.index_expr import IndexMap
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.kernels.tensix.witness.reference import evaluate
from optimizer.kernels.tensix.witness.whole_tensors import Witnessed, witness

executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")

DENSE = """
%result = ttl.compute_region ins(%x_blk, %w_blk, %bias_blk, %ones_blk) outs(%o_blk) {
  ^bb0(%x, %w, %b, %ones):
    %matmul_result = ttl.block_matmul %x, %w         // X @ W
    %with_bias = ttl.block_add %matmul_result, %b    // + bias
    %activated = ttl.block_relu %with_bias           // ReLU activation
    %mean = ttl.block_reduce_sum %activated, %ones {axis = 1}  // Sum for mean
    %mean_bcast = ttl.block_bcast %mean {axis = 1}   // Broadcast mean
    %centered = ttl.block_sub %activated, %mean_bcast // Center values
    ttl.yield %centered
} {keep_in_dst = true}
"""
"""4.4.1, a bias of 1xN tiles against MxN."""

ATTENTION = """
%result = ttl.compute_region ins(%q_blk, %k_blk, %v_blk, %scale_blk, %ones_blk) outs(%o_blk) {
  ^bb0(%q, %k, %v, %scale, %ones):
    %s = ttl.block_matmul %q, %k
    %s_scaled = ttl.block_mul %s, %scale
    %exp_s = ttl.block_exp %s_scaled
    %sum = ttl.block_reduce_sum %exp_s, %ones {axis = 1}
    %sum_bcast = ttl.block_bcast %sum {axis = 1}
    %recip = ttl.block_recip %sum_bcast
    %p = ttl.block_mul %exp_s, %recip
    %o = ttl.block_matmul %p, %v
    ttl.yield %o
} {keep_in_dst = true}
"""
"""4.4.1, the description of `compute_region`."""

CHAIN = """
%result = ttl.compute_region ins(%a_blk, %b_blk, %c_blk) outs(%o_blk) {
^bb0(%a, %b, %c):
  %add = ttl.block_add %a, %b      // Op 1
  %mul = ttl.block_mul %add, %c    // Op 2
  %exp = ttl.block_exp %mul        // Op 3
  ttl.yield %exp
}
"""
"""5.6.4, on blocks of 8x8 tiles."""

MARKED = """
%dst0 = ttl.acquire_dst
%result = ttl.block_add %a_blk, %b_blk {dst_reg = %dst0}  // 2x1 block
ttl.release_dst %dst0
ttl.block_store %o_blk, %result
"""
"""4.4.5."""


def dense(config: str = "") -> Op:
    inputs = {"x": (2, 3), "w": (3, 4), "bias": (1, 4), "ones": (1, 1)}
    return parse(around(DENSE, inputs, (2, 4), config))


def attention(config: str = "") -> Op:
    inputs = {"q": (2, 2), "k": (2, 3), "v": (3, 2), "scale": (1, 1), "ones": (1, 1)}
    return parse(around(ATTENTION, inputs, (2, 2), config))


def chain(config: str = "") -> Op:
    return parse(around(CHAIN, dict.fromkeys("abc", (8, 8)), (8, 8), config))


WIDE = ", fp32_dest_acc_en = true"


def agrees(found: Witnessed) -> bool:
    return found.agrees and found.executed == 0


@executed
@pytest.mark.parametrize("config", ["", WIDE])
@pytest.mark.parametrize("example", [dense, attention, chain])
@pytest.mark.slow
def test_a_fused_region_computes_what_it_says(example: object, config: str) -> None:
    assert agrees(witness(example(config), KernelOptions()))  # type: ignore[operator]


def test_the_dense_layer_adds_the_bias_to_every_row_of_tiles() -> None:
    """In numpy, from the document's comments; the bias's tiles hold it in every row."""
    rng = np.random.default_rng(5)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 96), (96, 128)))
    bias = np.broadcast_to(rng.normal(size=(1, 128)), (32, 128)).astype(np.float32)
    ones = np.full((32, 32), 1 / 128, np.float32)
    blocks = {"x_cb": x, "w_cb": w, "bias_cb": bias, "ones_cb": ones}
    activated = np.maximum(x @ w + bias[0], 0)
    got = evaluate(dense(), blocks)["o_cb"]
    np.testing.assert_allclose(got, activated - activated.mean(axis=1, keepdims=True), rtol=1e-5, atol=1e-4)


def test_attention_is_softmax_times_values() -> None:
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 64), (64, 96), (96, 64)))
    tiles = {"scale_cb": np.full((32, 32), 0.125, np.float32), "ones_cb": np.ones((32, 32), np.float32)}
    powers = np.exp(q @ k * 0.125)
    got = evaluate(attention(), {"q_cb": q, "k_cb": k, "v_cb": v, **tiles})["o_cb"]
    np.testing.assert_allclose(got, powers / powers.sum(axis=1, keepdims=True) @ v, rtol=1e-4, atol=1e-4)


def test_the_dense_layer_keeps_three_values_in_dst() -> None:
    """The sum and the difference read L1: the activations and the sums go through it, the rest stays (4.4.1)."""
    assert witness(dense(), KernelOptions(), execute_cpp=False).round_trips_saved == 3


def test_the_chain_of_8x8_tiles_takes_8_sections_of_8() -> None:  # 5.6.2 to 5.6.5
    stages: dict[str, Op] = {}
    lower(chain(), KernelOptions(), stages.__setitem__)
    computes = {name: [op for op in walk(op) if op.name == "ttl.compute"] for name, op in stages.items()}
    (fused,) = computes["fuse-computes"]
    assert fused.maps == (IndexMap.identity(2),) * 3
    assert fused.strings("iterator_types") == ("parallel", "parallel")
    assert [op.name for op in fused.body.ops] == ["ttl.tile_add", "ttl.tile_mul", "ttl.tile_exp", "ttl.yield"]
    (placed,) = computes["assign-dst"]
    assert (placed.integer("unroll"), placed.integer("footprint")) == (8, 0)


@pytest.mark.parametrize(("config", "unroll"), [(", dst_full_sync_en = true", 16), (WIDE, 4), ("", 8)])
def test_one_slot_per_tile_fills_the_capacity(config: str, unroll: int) -> None:  # 5.6.7
    stages: dict[str, Op] = {}
    lower(chain(config), KernelOptions(), stages.__setitem__)
    assert [op.integer("unroll") for op in walk(stages["assign-dst"]) if op.name == "ttl.compute"] == [unroll]


@executed
def test_markers_of_a_register_are_read_and_gone() -> None:  # 4.4.5
    program = parse(around(MARKED, {"a": (2, 1), "b": (2, 1)}, (2, 1)))
    assert not any(op.has_attr("dst_reg") for op in walk(program))
    assert agrees(witness(program, KernelOptions()))


def test_a_marker_names_a_register_that_is_acquired() -> None:
    text = around(MARKED.replace("{dst_reg = %dst0}", "{dst_reg = %dst1}"), {"a": (2, 1), "b": (2, 1)}, (2, 1))
    with pytest.raises(FormatError, match=r"'dst_reg' is %dst1, which no ttl\.acquire_dst gives"):
        parse(text)


def test_a_created_buffer_holds_its_blocks() -> None:  # 4.2: 2 tiles per block x 2 blocks
    op = parse("%cb = ttl.create_cb {shape = [2, 1], element_type = !ttcore.tile<32x32,f32>, buffer_factor = 2}")
    cb = op.result.typed(CircularBufferType)
    assert (str(cb), cb.size_bytes) == ("cb<2x1xf32, 2>", 4 * 4096)


def test_a_row_major_buffer_is_refused_with_the_reason() -> None:  # 4.2, the second example
    with pytest.raises(FormatError, match=r"row-major: unpacker, packer and every op work on tiles.*tile<f32>"):
        parse('%cb = ttl.create_cb {shape = [64, 32], element_type = "f32", buffer_factor = 2}')


def reused(taken_again: bool) -> Op:
    """4.4.4: `mid_cb` hands two results on within the thread, one after the other."""

    @ttl.kernel(grid=(1, 1))
    def kernel(a: ttl.Tensor, out: ttl.Tensor) -> tuple[Op, ...]:
        a_cb, out_cb = (ttl.make_circular_buffer_like(t, shape=(2, 2)) for t in (a, out))
        mid_cb = out_cb if taken_again else ttl.make_circular_buffer_like(out, shape=(2, 2))

        @ttl.compute()
        def compute() -> None:
            a_blk = a_cb.wait()
            o = mid_cb.reserve()  # Reserve output slot
            o.store(a_blk**2)  # Materialize result
            mid_cb.push()  # Signal available

            intermediate = mid_cb.wait()  # Re-acquire from CB
            doubled = intermediate + a_blk
            result = out_cb.reserve()
            result.store(doubled)
            mid_cb.pop()  # Release slot
            out_cb.push()

            o = mid_cb.reserve()  # Reuse same CB slot for next result
            o.store(abs(a_blk))
            mid_cb.push()
            mid_cb.wait()
            mid_cb.pop()
            a_cb.pop()

        @ttl.datamovement()
        def read() -> None:
            with a_cb.reserve() as block:
                ttl.copy(a[0, 0], block).wait()

        @ttl.datamovement()
        def write() -> None:
            with out_cb.wait() as block:
                ttl.copy(block, out[0, 0]).wait()

        return ttl.Program(compute, read, write)(a, out)

    return kernel(ttl.Tensor((2, 2)), ttl.Tensor((2, 2)))


@executed
def test_store_wait_pop_hands_values_on_within_a_thread() -> None:
    assert agrees(witness(reused(taken_again=False), KernelOptions()))


def test_a_buffer_that_two_threads_pop_is_refused() -> None:
    """The pattern with the writer's own buffer: two threads would take each other's blocks."""
    with pytest.raises(GraphError, match="both pop"):
        lower(reused(taken_again=True))


SLICED = """ttl.program @sliced {grid = [2, 2], block_factors = [[1, 1]]} {
  ^(%x: tensor<2x2xbf16>):
  %cb = ttl.bind_cb : cb<1x1xbf16, 2>
  ttl.datamovement_thread @read {processor = "reader"} {
    %accessor = ttl.tensor_accessor %x
    %row, %column = ttl.grid_slice %accessor
    %room = ttl.cb_reserve %cb
    %move = ttl.copy_in(%accessor, %row, %column, %room)
    ttl.transfer_wait %move
    ttl.cb_push %room
  }
}
"""


def test_a_core_of_2x2_takes_its_tile() -> None:  # 4.7: core (x, y) has tensor[y, x]
    stages: dict[str, Op] = {}
    lower(parse(SLICED), KernelOptions(), stages.__setitem__)
    maps = [op.index_map("map") for op in walk(stages["fold-grid"]) if op.name == "ttl.index"]
    assert [[m.evaluate((x, y))[0] for m in maps] for y in (0, 1) for x in (0, 1)] == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_text_of_an_example_is_the_printed_form() -> None:
    program = dense()
    assert parse(text_of(program)) == program
    assert "ttl.block_" not in text_of(program)
