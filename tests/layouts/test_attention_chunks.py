"""How attention is dealt to cores, and which chunk sizes are offered."""

from __future__ import annotations

from itertools import product

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.attention_chunks import chunk_configs, deal
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.layouts.op_config import SDPAProgramConfig
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpQuery, TensorSpec

_LAID = (DType.BF16, DRAM_TILE)


@pytest.mark.parametrize(
    ("tokens", "causal", "cores", "chunk", "steps"),
    [
        (4096, True, 110, (4, 4), 165),  # 5 of the 512 pairs, each over 33 chunks of keys
        (4096, True, 110, (8, 4), 102),
        (4096, True, 110, (16, 4), 72),
        (4096, True, 64, (8, 8), 68),
        (4096, False, 110, (4, 4), 320),
        (96, True, 64, (1, 1), 6),  # three chunks do not pair: one core has a whole head
    ],
)
def test_steps_of_the_busiest_core(tokens: int, causal: bool, cores: int, chunk: tuple[int, int], steps: int) -> None:
    """tenstorrent/tt-metal #55766 counts 165, 102 and 72 for 32 heads of 4,096 tokens on 110 cores."""
    heads = 32 if tokens > 96 else 64
    shape = (1, heads, tokens, 128)
    assert deal(shape, shape, causal, cores, *chunk).steps == steps


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("shape", "keys"), [((1, 12, 197, 64), 197), ((2, 8, 512, 64), 512), ((1, 4, 96, 96), 160)])
def test_no_chunks_left_out_are_faster_in_no_more_l1(shape: tuple[int, ...], keys: int, causal: bool) -> None:
    """Every pair of chunk sizes is priced: those offered are as good as any in time and L1 together."""
    keys = shape[2] if causal else keys
    device = DeviceSpec.preset("n150")
    model = registry.create("analytical", device)
    q, k = TensorSpec(shape, *_LAID), TensorSpec((shape[0], 2, keys, shape[3]), *_LAID)

    def priced(config: SDPAProgramConfig) -> tuple[int, int]:
        query = OpQuery("ttnn.scaled_dot_product_attention", (q, k, k), (("is_causal", causal),), config)
        answer = model.constraints(query)
        assert answer.valid, answer.error
        return model.runtime_ns(query), answer.peak_bytes

    offered = [priced(config) for config in chunk_configs(q.shape, k.shape, causal, device.grid_yx)]
    sizes = (range(32, side + 63, 32) for side in (shape[2], keys))
    for sizes_qk in product(*sizes):
        time, size = priced(SDPAProgramConfig(device.grid_yx, *sizes_qk))
        assert any(t <= time and s <= size for t, s in offered), sizes_qk


def test_whole_sequences_of_few_heads_are_cut_so_that_every_core_has_a_part() -> None:
    found = chunk_configs((1, 12, 128, 64), (1, 12, 128, 64), False, (8, 8))

    assert {(c.q_chunk_size, c.k_chunk_size) for c in found} == {(32, 128), (32, 64), (32, 32)}
    assert all(c.exp_approx_mode is False for c in found)
