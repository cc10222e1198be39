"""Kernels written with the front end: the 2x2 add of the design document, and the rows that networks are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.ttl import Block

Shape = tuple[int, int]


@ttl.kernel(grid=(1, 1))
def add_multitile(lhs: ttl.Tensor, rhs: ttl.Tensor, out: ttl.Tensor) -> tuple[Op, ...]:
    lhs_cb = ttl.make_circular_buffer_like(lhs, shape=(2, 2), buffer_factor=2)
    rhs_cb = ttl.make_circular_buffer_like(rhs, shape=(2, 2), buffer_factor=2)
    out_cb = ttl.make_circular_buffer_like(out, shape=(2, 2), buffer_factor=2)

    @ttl.compute()
    def add_compute() -> None:
        left, right, room = lhs_cb.wait(), rhs_cb.wait(), out_cb.reserve()
        room.store(left + right)
        lhs_cb.pop()
        rhs_cb.pop()
        out_cb.push()

    @ttl.datamovement()
    def dm_read() -> None:
        for tensor, cb in ((lhs, lhs_cb), (rhs, rhs_cb)):
            block = cb.reserve()
            ttl.copy(tensor[0, 0], block).wait()
            cb.push()

    @ttl.datamovement()
    def dm_write() -> None:
        block = out_cb.wait()
        ttl.copy(block, out[0, 0]).wait()
        out_cb.pop()

    return ttl.Program(add_compute, dm_read, dm_write)(lhs, rhs, out)


def add_2x2() -> Op:
    """The design document's example."""
    return add_multitile(ttl.Tensor((2, 2)), ttl.Tensor((2, 2)), ttl.Tensor((2, 2)))


def kernel_around(
    name: str,
    inputs: Sequence[ttl.Tensor],
    outputs: Sequence[ttl.Tensor],
    body: Callable[..., Block | Sequence[Block]],
    **config: bool | str,
) -> Op:
    """A kernel whose reader brings one block of each input, and whose writer takes one of each output: each block is a
    whole tensor, and `body` makes the results of the inputs. `config` is what `kernel` takes besides."""
    count = len(inputs)

    def threads(*tensors: ttl.Tensor) -> tuple[Op, ...]:
        buffers = [ttl.make_circular_buffer_like(t, t.shape) for t in tensors]

        @ttl.compute()
        def math() -> None:
            blocks = [cb.wait() for cb in buffers[:count]]
            rooms = [cb.reserve() for cb in buffers[count:]]
            results = body(*blocks)
            for room, result in zip(rooms, (results,) if isinstance(results, Block) else results, strict=True):
                room.store(result)
            for cb in buffers[:count]:
                cb.pop()
            for cb in buffers[count:]:
                cb.push()

        @ttl.datamovement()
        def read() -> None:
            for tensor, cb in zip(tensors, buffers[:count], strict=False):
                block = cb.reserve()
                ttl.copy(tensor[0, 0], block).wait()
                cb.push()

        @ttl.datamovement()
        def write() -> None:
            for tensor, cb in zip(tensors[count:], buffers[count:], strict=True):
                block = cb.wait()
                ttl.copy(block, tensor[0, 0]).wait()
                cb.pop()

        return ttl.Program(math, read, write)(*tensors)

    threads.__name__ = name
    return ttl.kernel(**config)(threads)(*inputs, *outputs)


def one_block(
    name: str,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    body: Callable[..., Block | Sequence[Block]],
    dtype: DType = DType.BF16,
) -> Op:
    """The same with one element type, in DST too, and tensors by their shapes."""
    tensors = ([ttl.Tensor(shape, dtype) for shape in shapes] for shapes in (inputs, outputs))
    return kernel_around(name, *tensors, body, fp32_dest_acc_en=dtype is DType.F32)


def _softmax(x: Block, ones: Block) -> Block:
    shifted = ttl.block_op("sub_bcast_col", x, ttl.block_op("reduce_max_row", x, ones))
    powers = ttl.block_op("exp", shifted)
    total = ttl.block_op("reduce_sum_row", powers, ones)
    return ttl.block_op("mul_bcast_col", powers, ttl.block_op("recip", total))


def _rms_norm(x: Block, ones: Block, gamma: Block) -> Block:
    mean = ttl.block_op("reduce_sum_row", x * x, ones) * (1 / 128) + 1e-5
    scaled = ttl.block_op("mul_bcast_col", x, ttl.block_op("rsqrt", mean))
    return ttl.block_op("mul_bcast_row", scaled, gamma)


def _attention_scores(q: Block, k: Block, ones: Block) -> Block:
    powers = ttl.block_op("exp", ttl.block_op("matmul_t", q, k) * 0.125)
    return ttl.block_op("mul_bcast_col", powers, ttl.block_op("recip", ttl.block_op("reduce_sum_row", powers, ones)))


def _gelu(x: Block) -> Block:
    return x * 0.5 * (ttl.block_op("erf", x * 0.70710678) + 1.0)


ROWS: dict[str, Callable[[], Op]] = {
    "dense": lambda: one_block(
        "dense",
        [(2, 3), (3, 4), (1, 4)],
        [(2, 4)],
        lambda x, w, b: ttl.block_op("relu", ttl.block_op("add_bcast_row", x @ w, b)),
    ),
    "gated_dense": lambda: one_block(
        "gated_dense",
        [(2, 3), (3, 4), (3, 4)],
        [(2, 4)],
        lambda x, gate, up: ttl.block_op("silu", x @ gate) * (x @ up),
    ),
    "sum_of_products": lambda: one_block(
        "sum_of_products", [(2, 3), (3, 4), (2, 2), (2, 4)], [(2, 4)], lambda x, w, y, u: x @ w + y @ u
    ),
    "softmax": lambda: one_block("softmax", [(2, 4), (1, 1)], [(2, 4)], _softmax),
    "rms_norm": lambda: one_block("rms_norm", [(2, 4), (1, 1), (1, 4)], [(2, 4)], _rms_norm),
    "gelu": lambda: one_block("gelu", [(3, 3)], [(3, 3)], _gelu),
    "attention_scores": lambda: one_block("attention_scores", [(2, 2), (3, 2), (1, 1)], [(2, 3)], _attention_scores),
}
"""By name; shapes are in tiles."""
