"""Every op has the text of its TTNN call: an expression over `ttnn`, the device and the operands, and nothing else."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.ir.compute_config import COMPUTE, Computation
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.ir.opdef import REQUIRED
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import (
    DRAM_ROW_MAJOR,
    DRAM_TILE,
    HOST_ROW_MAJOR,
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import (
    Conv2dConfig,
    InPlaceConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    SDPAProgramConfig,
)
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.registry import create
from optimizer.opmodel.rows import EXTRA_OPS, query_from_row
from optimizer.opmodel.ttnn_calls import call_text, called_ops, literal, memory_config_text

HEIGHT = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, ShardSpec((2, 1), (32, 64), ((0, 0, 1, 0),)))
WIDTH = MemoryConfig(
    TensorMemoryLayout.WIDTH_SHARDED,
    BufferType.L1,
    ShardSpec((1, 2), (64, 32), ((0, 0, 1, 0),), ShardOrientation.COL_MAJOR),
)
HEIGHT_TEXT = (
    "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(ttnn.CoreRangeSet("
    "[ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(1, 0))]), [32, 64], ttnn.ShardOrientation.ROW_MAJOR))"
)


def t(*shape: int, dtype: str = "bf16", layout: TensorLayout = DRAM_TILE) -> TensorSpec:
    return TensorSpec(shape, DType(dtype), layout)


def rm(*shape: int, dtype: str = "bf16") -> TensorSpec:
    return t(*shape, dtype=dtype, layout=DRAM_ROW_MAJOR)


def host(*shape: int) -> TensorSpec:
    return t(*shape, layout=HOST_ROW_MAJOR)


X = t(1, 1, 64, 64)
INTEGERS = t(1, 1, 64, 64, dtype="i32")
WINDOW = {"batch_size": 1, "input_height": 16, "input_width": 16}
SHARDS = TensorLayout(PageLayout.TILE, HEIGHT)
Example = tuple[list[TensorSpec], dict[str, Attr]]

EXAMPLES: dict[str, Example] = {
    **{f"ttnn.{name}": ([INTEGERS if name == "bitwise_not" else X], {}) for name in UNARY},
    **{
        f"ttnn.{name}": ([INTEGERS if name.startswith("bitwise") or name.endswith("shift") else X] * 2, {})
        for name in BINARY
    },
    **{f"ttnn.{name}": ([X], {"dim": -1}) for name in REDUCTIONS},
    **{f"ttnn.{name}": ([X] * 3, {}) for name in ("addcmul", "addcdiv", "lerp", "mac", "where")},
    "ttnn.prelu": ([t(1, 32, 8, 64), t(1, 32, 1, 1)], {}),
    "ttnn.leaky_relu": ([X], {}),
    "ttnn.elu": ([X], {}),
    "ttnn.celu": ([X], {}),
    "ttnn.softplus": ([X], {}),
    "ttnn.clamp": ([X], {"min": 0.0, "max": 6.0}),
    "ttnn.pow_scalar": ([X], {"exponent": 2.0}),
    "ttnn.rsub": ([X], {"scalar": 1.0}),
    "ttnn.rdiv": ([X], {"scalar": 1.0}),
    "ttnn.hardshrink": ([X], {"lambd": 0.7}),
    "ttnn.softshrink": ([X], {"lambd": 0.7}),
    "ttnn.heaviside": ([X], {}),
    "ttnn.threshold": ([X], {"threshold": 1.0, "value": 0.0}),
    "ttnn.prelu_scalar": ([X], {"weight": 0.2}),
    "ttnn.typecast": ([X], {"dtype": "f32"}),
    "ttnn.matmul": ([X, X], {}),
    "ttnn.linear": ([X, t(64, 64), t(1, 64)], {"activation": "relu"}),
    "ttnn.conv2d": (
        [t(1, 1, 256, 64), host(64, 64, 3, 3), host(1, 1, 1, 64)],
        {**WINDOW, "kernel_size": (3, 3), "padding": (1, 1, 1, 1), "in_channels": 64, "out_channels": 64},
    ),
    "ttnn.conv_transpose2d": (
        [rm(1, 1, 256, 64), host(64, 64, 2, 2), host(1, 1, 1, 64)],
        {**WINDOW, "kernel_size": (2, 2), "stride": (2, 2), "in_channels": 64, "out_channels": 64},
    ),
    "ttnn.max_pool2d": (
        [rm(1, 1, 256, 64)],
        {**WINDOW, "kernel_size": (3, 3), "stride": (2, 2), "padding": (0, 1, 0, 1), "channels": 64},
    ),
    "ttnn.avg_pool2d": (
        [rm(1, 1, 256, 64)],
        {
            **WINDOW,
            "kernel_size": (3, 3),
            "stride": (2, 2),
            "padding": (0, 1, 0, 1),
            "channels": 64,
            "count_include_pad": False,
        },
    ),
    "ttnn.global_avg_pool2d": ([t(1, 7, 7, 64)], {}),
    "ttnn.upsample": ([rm(1, 8, 8, 64)], {"scale_factor": (2, 2)}),
    "ttnn.grid_sample": ([rm(1, 8, 8, 64), rm(1, 5, 7, 2)], {"align_corners": True}),
    "ttnn.softmax": ([X], {}),
    "ttnn.layer_norm": ([X, t(64), t(64)], {}),
    "ttnn.rms_norm": ([X, t(64)], {}),
    "ttnn.group_norm": ([t(1, 1, 256, 320), rm(1, 1, 10, 32), rm(1, 1, 10, 32)], {"num_groups": 32}),
    "ttnn.batch_norm": ([t(1, 32, 8, 8), *[t(1, 32, 1, 1)] * 4], {}),
    "ttnn.argmax": ([rm(1, 1, 64, 64)], {"dim": -1}),
    "ttnn.topk": ([X], {"k": 32}),
    "ttnn.sort": ([X], {}),
    "ttnn.cumsum": ([X], {}),
    "ttnn.reshape": ([X], {"shape": (64, 64)}),
    "ttnn.permute": ([X], {"dims": (0, 1, 3, 2)}),
    "ttnn.transpose": ([X], {"dim0": -1, "dim1": -2}),
    "ttnn.concat": ([X, X], {"dim": -1}),
    "ttnn.slice": ([X], {"begins": (0, 0, 0, 0), "ends": (1, 1, 32, 32)}),
    "ttnn.split": ([X], {"sizes": (32, 32), "dim": -1}),
    "ttnn.fill_implicit_tile_padding": ([t(1, 1, 64, 50)], {"value": -1e9}),
    "ttnn.pad": ([X], {"padding": ((0, 0), (0, 0), (0, 32), (0, 0))}),
    "ttnn.repeat": ([X], {"repeats": (1, 2, 1, 1)}),
    "ttnn.repeat_interleave": ([X], {"repeats": 2, "dim": 1}),
    "ttnn.embedding": ([rm(1, 64, dtype="u32"), rm(128, 64)], {}),
    "ttnn.gather": ([X, t(1, 1, 64, 64, dtype="u32")], {}),
    "ttnn.scatter": ([rm(4, 64), rm(4, 32, dtype="i32"), rm(4, 32)], {"dim": 1}),
    "ttnn.scatter_add": ([rm(4, 64), rm(4, 32, dtype="i32"), rm(4, 32)], {"dim": 1}),
    "ttnn.tril": ([X], {}),
    "ttnn.triu": ([X], {}),
    "ttnn.to_layout": ([X], {"layout": "row_major"}),
    "ttnn.to_memory_config": ([X], {}),
    "ttnn.to_device": ([t(1, 1, 64, 64, layout=TensorLayout(PageLayout.TILE, HOST_ROW_MAJOR.memory))], {}),
    "ttnn.from_device": ([X], {}),
    "ttnn.full": ([], {"shape": (32, 32), "value": 1.5}),
    "ttnn.zeros": ([], {"shape": (32, 32)}),
    "ttnn.ones": ([], {"shape": (32, 32)}),
    "ttnn.arange": ([], {"end": 32}),
    "ttnn.scaled_dot_product_attention": ([t(1, 8, 64, 64)] * 3, {}),
    "ttnn.scaled_dot_product_attention_decode": (
        [t(1, 1, 8, 64), t(1, 8, 64, 64), t(1, 8, 64, 64)],
        {"cur_pos": (5,)},
    ),
    "ttnn.split_query_key_value_and_split_heads": ([t(1, 64, 768)], {"num_heads": 4}),
    "ttnn.concatenate_heads": ([t(1, 4, 64, 64)], {}),
    "ttnn.rotary_embedding": ([t(1, 4, 64, 64), t(1, 1, 64, 64), t(1, 1, 64, 64)], {}),
    "ttnn.attention_softmax": ([t(1, 4, 64, 64)], {"head_size": 64}),
    "ttnn.clone": ([X], {}),
    "ttnn.interleaved_to_sharded": ([X], {}),
    "ttnn.nlp_concat_heads": ([t(1, 4, 64, 64)], {}),
    "ttnn.nlp_create_qkv_heads": ([t(1, 1, 64, 768)], {"num_heads": 4}),
    "ttnn.reshard": ([t(1, 1, 64, 64, layout=SHARDS)], {}),
    "ttnn.sharded_to_interleaved": ([t(1, 1, 64, 64, layout=SHARDS)], {}),
    "ttnn.tilize": ([rm(1, 1, 64, 64)], {}),
    "ttnn.tilize_with_zero_padding": ([rm(1, 1, 64, 64)], {}),
    "ttnn.unsqueeze": ([X], {"dim": 0}),
    "ttnn.untilize": ([X], {}),
}
"""Op -> operands and attributes of a call that tt-metal accepts."""

OUTPUTS = {
    "ttnn.to_memory_config": HEIGHT,
    "ttnn.interleaved_to_sharded": HEIGHT,
    "ttnn.reshard": WIDTH,
    "ttnn.sharded_to_interleaved": DRAM_TILE.memory,
    "ttnn.to_device": DRAM_TILE.memory,
}
"""Ops that cannot do without a memory config."""
DRAM_NAMES = frozenset({"x0", "x1", "x2", "x3", "x4", "ttnn", "device", "float"})


def query(op: str, **changes: Any) -> OpQuery:
    """The example of an op with the vocabulary's defaults filled in."""
    inputs, given_attrs = EXAMPLES[op]
    defaults = {k: v for k, v in opdef(op).attrs.items() if v is not REQUIRED}
    attrs = {**defaults, **given_attrs, **changes.pop("attrs", {})}
    fields = {"output": OUTPUTS.get(op), "inputs": tuple(inputs), **changes}
    return OpQuery(op, attrs=tuple(sorted(attrs.items())), **fields)


def text(asked: OpQuery) -> str:
    return call_text(asked, [f"x{k}" for k in range(len(asked.inputs))])


def stating(op: str) -> OpQuery:
    """The example of an op with the compute config that its calls in a program state."""
    asked = query(op)
    rule = opdef(op).compute
    if rule is None:
        return asked
    config = rule(Computation(tuple(x.dtype for x in asked.inputs)))
    return replace(asked, attrs=tuple(sorted((*asked.attrs, (COMPUTE, config.attr)))))


def names(expression: str) -> Iterator[str]:
    """Every free name of an expression; fails when it is no single expression."""
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Name):
            yield node.id


def test_every_op_has_an_example_and_a_call() -> None:
    wanted = {*op_names(), *EXTRA_OPS}
    assert wanted == set(EXAMPLES) == set(called_ops())


@pytest.mark.parametrize("op", sorted(EXAMPLES))
def test_call_is_an_expression_over_ttnn_device_and_operands(op: str) -> None:
    asked = query(op)
    expression = text(asked)
    found = set(names(expression))
    assert found <= DRAM_NAMES
    assert "ttnn" in found
    assert {f"x{k}" for k in range(len(asked.inputs))} <= found
    assert "\n" not in expression


STAYS = {"ttnn.unsqueeze", "ttnn.from_device", "ttnn.fill_implicit_tile_padding"}
"""Calls that say nothing of where their result is."""


@pytest.mark.parametrize("op", sorted(set(EXAMPLES) - STAYS))
def test_requested_memory_config_is_passed_and_absent_one_is_not(op: str) -> None:
    assert HEIGHT_TEXT in text(query(op, output=HEIGHT))
    if op not in OUTPUTS:
        assert "memory_config" not in text(query(op, output=None))
    elif op != "ttnn.to_device":
        with pytest.raises(OpModelError, match=op):
            text(query(op, output=None))


CASES: list[tuple[str, dict[str, Any], str]] = [
    (
        "ttnn.nlp_create_qkv_heads",
        {"attrs": {"num_heads": 12, "num_kv_heads": 0}},
        "ttnn.experimental.nlp_create_qkv_heads(x0, num_heads=12, num_kv_heads=0, transpose_k_heads=False)[0]",
    ),
    ("ttnn.relu", {}, "ttnn.relu(x0)"),
    ("ttnn.relu", {"config": InPlaceConfig(0)}, "ttnn.relu(x0, output_tensor=x0)"),
    ("ttnn.pow_scalar", {"config": InPlaceConfig(0)}, "ttnn.pow(x0, 2.0, output_tensor=x0)"),
    ("ttnn.elu", {"config": InPlaceConfig(0)}, "ttnn.elu(x0, output_tensor=x0, alpha=1.0)"),
    ("ttnn.subtract", {"config": InPlaceConfig(1)}, "ttnn.subtract(x0, x1, output_tensor=x1)"),
    ("ttnn.elu", {}, "ttnn.elu(x0, alpha=1.0)"),
    ("ttnn.leaky_relu", {}, "ttnn.leaky_relu(x0, 0.01)"),
    ("ttnn.hardshrink", {}, "ttnn.hardshrink(x0, lambd=0.7)"),
    ("ttnn.pow_scalar", {}, "ttnn.pow(x0, 2.0)"),
    ("ttnn.rdiv", {}, "ttnn.rdiv(x0, 1.0)"),
    ("ttnn.prelu_scalar", {}, "ttnn.prelu(x0, 0.2)"),
    (
        "ttnn.add",
        {"attrs": {"activations": ("relu",)}, "output_dtype": DType.BFP8_B},
        "ttnn.add(x0, x1, dtype=ttnn.bfloat8_b, activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)])",
    ),
    (
        "ttnn.multiply",
        {"attrs": {"input_tensor_a_activations": ("silu",), "input_tensor_b_activations": ()}},
        "ttnn.multiply(x0, x1, input_tensor_a_activations=[ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)])",
    ),
    ("ttnn.add", {"inputs": (X,), "attrs": {"scalar": -math.inf}}, 'ttnn.add(x0, float("-inf"))'),
    ("ttnn.where", {"inputs": (X,), "attrs": {"x": 0.0, "y": -1.0}}, "ttnn.where(x0, 0.0, -1.0)"),
    ("ttnn.where", {"inputs": (X, X), "attrs": {"x": 0.0}}, "ttnn.where(x0, 0.0, x1)"),
    ("ttnn.where", {"inputs": (X, X), "attrs": {"y": 0.0}}, "ttnn.where(x0, x1, 0.0)"),
    ("ttnn.clamp", {"attrs": {"min": None, "max": 6.0}}, "ttnn.clamp(x0, None, 6.0)"),
    (
        "ttnn.linear",
        {"attrs": {"transpose_b": True}},
        'ttnn.linear(x0, x1, bias=x2, transpose_b=True, activation="relu")',
    ),
    (
        "ttnn.matmul",
        {"config": MatmulMultiCoreReuseProgramConfig((4, 8), 1, 2, 3, 4, 5)},
        "ttnn.matmul(x0, x1, program_config=ttnn.MatmulMultiCoreReuseProgramConfig(compute_with_storage_grid_size="
        "ttnn.CoreCoord(8, 4), in0_block_w=1, out_subblock_h=2, out_subblock_w=3, per_core_M=4, per_core_N=5))",
    ),
    (
        "ttnn.matmul",
        {"config": MatmulMultiCoreReuseMultiCast1DProgramConfig((8, 8), 2, 1, 2, 4, 6, True, out_block_w=2)},
        "ttnn.matmul(x0, x1, program_config=ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig("
        "compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), in0_block_w=2, out_subblock_h=1, out_subblock_w=2, "
        "per_core_M=4, per_core_N=6, fuse_batch=True, fused_activation=None, mcast_in0=True, out_block_w=2))",
    ),
    (
        "ttnn.matmul",
        {"config": MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(2, 1, 6, "silu", 2)},
        "ttnn.matmul(x0, x1, program_config=ttnn.MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w=2, "
        "per_core_M=1, per_core_N=6, fused_activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU), "
        "num_workers_per_dram_bank=2))",
    ),
    (
        "ttnn.matmul",
        {"attrs": {"math_fidelity": "lofi"}},
        "ttnn.matmul(x0, x1, compute_kernel_config=ttnn.init_device_compute_kernel_config(device.arch(), "
        "math_fidelity=ttnn.MathFidelity.LoFi, math_approx_mode=False, fp32_dest_acc_en=False, packer_l1_acc=True))",
    ),
    (
        "ttnn.scaled_dot_product_attention",
        {"config": SDPAProgramConfig((8, 8), 64, 32), "attrs": {"scale": 0.5}},
        "ttnn.transformer.scaled_dot_product_attention(x0, x1, x2, attn_mask=None, is_causal=False, scale=0.5, "
        "program_config=ttnn.SDPAProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord(8, 8), q_chunk_size=64, "
        "k_chunk_size=32))",
    ),
    (
        "ttnn.scaled_dot_product_attention",
        {"config": SDPAProgramConfig((8, 4), 96, 224, exp_approx_mode=False)},
        "ttnn.transformer.scaled_dot_product_attention(x0, x1, x2, attn_mask=None, is_causal=False, "
        "program_config=ttnn.SDPAProgramConfig(compute_with_storage_grid_size=ttnn.CoreCoord(4, 8), q_chunk_size=96, "
        "k_chunk_size=224, exp_approx_mode=False))",
    ),
    ("ttnn.split", {"attrs": {"sizes": (32, 16, 16)}}, "ttnn.split(x0, [32, 16, 16], -1)"),
    ("ttnn.split", {"attrs": {"sizes": (24, 24, 16)}}, "ttnn.split(x0, 24, -1)"),
    ("ttnn.sum", {"attrs": {"dim": (1, 2)}}, "ttnn.sum(x0, dim=[1, 2], keepdim=True)"),
    (
        "ttnn.prod",
        {"attrs": {"dim": (1, -1), "keepdim": False}},
        "ttnn.prod(ttnn.prod(x0, dim=3, keepdim=False), dim=1, keepdim=False)",
    ),
    ("ttnn.argmax", {"attrs": {"dim": (-1,)}}, "ttnn.argmax(x0, dim=-1, keepdim=False)"),
    ("ttnn.atan2", {"inputs": (X,), "attrs": {"scalar": 2.0}}, "ttnn.atan2(x0, ttnn.full_like(x0, 2.0))"),
    (
        "ttnn.prelu",
        {"inputs": (X, t(64))},
        "ttnn.where(ttnn.gtz(x0), x0, ttnn.multiply(x0, x1))",
    ),
    (
        "ttnn.arange",
        {"attrs": {"start": 0.5, "end": 3, "step": 0.5}},
        "ttnn.add(ttnn.multiply(ttnn.arange(0, 5, 1, dtype=ttnn.bfloat16, device=device), 0.5), 0.5)",
    ),
]


@pytest.mark.parametrize(("op", "changes", "wanted"), CASES)
def test_calls(op: str, changes: dict[str, Any], wanted: str) -> None:
    assert text(query(op, **changes)) == wanted


def test_conv_says_what_differs_from_the_defaults() -> None:
    config = Conv2dConfig(
        weights_dtype="bfp8_b", activation="relu", act_block_h_override=32, shard_layout="block_sharded", slice="l1"
    )
    found = text(query("ttnn.conv2d", config=config))
    assert (
        "conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, "
        "activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU), act_block_h_override=32, "
        "shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED)" in found
    )
    assert "slice_config=ttnn.Conv2dL1FullSliceConfig" in found
    assert "padding=(1, 1)" in found
    sliced = text(query("ttnn.conv2d", config=Conv2dConfig(slice="dram_width:4")))
    assert "ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceWidth, num_slices=4)" in sliced
    assert "padding=(0, 1, 2, 3)" in text(query("ttnn.conv2d", attrs={"padding": (0, 1, 2, 3)}))


def test_rows_keep_their_own_attributes() -> None:
    tile = {"shape": [1, 1, 64, 64], "dtype": "bf16", "layout": "tile", "memory_layout": "interleaved", "buffer": "l1"}
    row = {
        "op": "matmul",
        "inputs": [tile, tile],
        "attrs": {"core_grid": [4, 2], "compute": {"fid": "HiFi2", "fp32": True, "l1acc": False}},
    }
    assert text(query_from_row(row)) == (
        "ttnn.matmul(x0, x1, compute_kernel_config=ttnn.init_device_compute_kernel_config(device.arch(), "
        "math_fidelity=ttnn.MathFidelity.HiFi2, math_approx_mode=False, fp32_dest_acc_en=True, packer_l1_acc=False), "
        "core_grid=ttnn.CoreGrid(x=4, y=2))"
    )
    row = {"op": "elu", "inputs": [tile], "attrs": {"kwargs": {"alpha": 0.5}}}
    assert text(query_from_row(row)) == "ttnn.elu(x0, alpha=0.5)"
    mask = {**tile, "shape": [1, 8, 32, 64]}
    row = {"op": "group_norm", "inputs": [tile, mask], "attrs": {"groups": 8, "inplace": False}}
    assert "input_mask=x1" in text(query_from_row(row))


def test_shards_left_to_the_op_and_host_memory() -> None:
    asked = MemoryConfig(TensorMemoryLayout.BLOCK_SHARDED, BufferType.L1)
    assert memory_config_text(asked) == "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1)"
    assert memory_config_text(HEIGHT) == HEIGHT_TEXT
    with pytest.raises(OpModelError, match="host"):
        memory_config_text(HOST_ROW_MAJOR.memory)


@pytest.mark.parametrize(
    ("op", "changes"),
    [
        ("ttnn.add", {"attrs": {"activations": ("relu), __import__('os",)}}),
        ("ttnn.add", {"attrs": {"activations": (1,)}}),
        ("ttnn.conv2d", {"attrs": {"activation": "a.b"}}),
        ("ttnn.conv2d", {"config": Conv2dConfig(slice="l2")}),
        ("ttnn.conv2d", {"config": Conv2dConfig(slice="dram_width:x)")}),
        ("ttnn.conv2d", {"config": SDPAProgramConfig((8, 8), 64, 32)}),
        ("ttnn.matmul", {"attrs": {"math_fidelity": "x"}}),
        ("ttnn.softmax", {"config": InPlaceConfig(0)}),
        ("ttnn.rsub", {"config": InPlaceConfig(0)}),
        ("ttnn.add", {"config": InPlaceConfig(2)}),
        ("ttnn.add", {"inputs": (X,)}),
        ("ttnn.matmul", {"inputs": (X,)}),
        ("ttnn.argmax", {"attrs": {"dim": (0, 1)}}),
        ("ttnn.typecast", {"attrs": {"dtype": "f99"}}),
        ("ttnn.avg_pool2d", {"attrs": {"dilation": (2, 2)}}),
    ],
)
def test_what_cannot_be_said_is_refused(op: str, changes: dict[str, Any]) -> None:
    with pytest.raises(OpModelError):
        text(query(op, **changes))


def test_the_host_converts_a_tensor_that_it_fetches() -> None:
    attrs = {"dtype": "bfp4_b", "on_host": True}
    said = text(query("ttnn.typecast", attrs=attrs, output=DRAM_TILE.memory))

    fetched = "ttnn.to_dtype(ttnn.from_device(x0), ttnn.bfloat4_b)"
    assert said == f"ttnn.to_device({fetched}, device, memory_config=ttnn.DRAM_MEMORY_CONFIG)"


def test_an_unknown_op_is_refused_by_name() -> None:
    with pytest.raises(OpModelError, match=r"acme\.Swirl"):
        call_text(OpQuery("acme.Swirl", (X,)), ["x0"])


scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.tuples(inner))


@given(values)
def test_literals_say_their_value(value: Any) -> None:
    shown = literal(value)
    assert "\n" not in shown
    assert eval(shown, {"float": float, "__builtins__": {}}) == value


def test_undefined_numbers_and_objects() -> None:
    assert math.isnan(eval(literal(math.nan), {"float": float}))
    with pytest.raises(OpModelError, match="object"):
        literal(object())


@given(st.text())
def test_attributes_cannot_carry_code(name: str) -> None:
    """Whatever a string attribute holds, the call stays one expression over the known names."""
    for op, key in (("ttnn.linear", "activation"), ("ttnn.upsample", "mode")):
        assert set(names(text(query(op, attrs={key: name})))) <= DRAM_NAMES


def test_ttnn_accepts_every_example(needs_ttnn: None) -> None:
    """One call of every op, and the odder spellings, on tt-metal itself."""
    model = create("ttmetal", DeviceSpec.preset("n150"))
    asked = [
        *(query(op) for op in EXAMPLES),
        *(query(op, **changes) for op, changes, _ in CASES if op != "ttnn.matmul"),
    ]
    answers = [(text(each), model.constraints(each)) for each in asked]
    assert {call: answer.error for call, answer in answers if not answer.valid} == {}


SIGNATURES = """
import functools, json, sys
import ttnn
found = {}
for name in sys.argv[1:]:
    function = functools.reduce(getattr, name.split(".")[1:], ttnn)
    found[name] = type(getattr(function, "function", function)).__call__.__doc__ or ""
print(json.dumps(found))
"""
CONFIGURES = re.compile(
    r"(\w+): [^,()]*ComputeKernelConfig|\b(math_fidelity|fp32_dest_acc_en|packer_l1_acc|math_approx_mode):"
)


def test_every_compute_config_that_ttnn_takes_is_stated(needs_ttnn: None, tmp_path: Path) -> None:
    """Where the wheel's own signature of a function has such an argument, every call in a program passes it."""
    texts = {op: text(stating(op)) for op in op_names()}
    calls = [node for shown in texts.values() for node in ast.walk(ast.parse(shown)) if isinstance(node, ast.Call)]
    passed: dict[str, set[str]] = {}
    for node in calls:
        named = {k.arg or "" for k in node.keywords}
        passed[ast.unparse(node.func)] = named & passed.get(ast.unparse(node.func), named)
    functions = [f for f in sorted(passed) if f.rpartition(".")[2].islower() and f.startswith("ttnn.")]

    done = subprocess.run(
        [sys.executable, "-c", SIGNATURES, *functions],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        env={**os.environ, "TT_METAL_LOGS_PATH": str(tmp_path)},
    )

    signatures = json.loads(done.stdout.splitlines()[-1])
    taken = {f: {a or b for a, b in CONFIGURES.findall(signatures[f])} for f in functions if "init_device" not in f}
    assert taken["ttnn.conv2d"] == {"compute_config"}
    assert taken["ttnn.matmul"] == taken["ttnn.softmax"] == {"compute_kernel_config"}
    assert {f: arguments - passed[f] for f, arguments in taken.items() if arguments - passed[f]} == {}


def test_ttnn_accepts_what_is_stated_and_takes_the_buffers_we_say(needs_ttnn: None) -> None:
    """Wide sums and exact functions need other buffers than TTNN's own choice: by as much as our formulas say."""
    device = DeviceSpec.preset("n150")
    real, ours = create("ttmetal", device), create("analytical", device)

    for op in (op for op in op_names() if opdef(op).compute is not None):
        answers = [[model.constraints(asked) for asked in (query(op), stating(op))] for model in (real, ours)]
        assert all(a.valid for each in answers for a in each), op
        by_real, by_ours = (stated.cb_bytes - left.cb_bytes for left, stated in answers)
        assert by_real == by_ours, op


@pytest.mark.parametrize(
    "attrs",
    [
        {"kwargs": (("x=__import__('os').system('id'), y", 1),)},
        {"kwargs": (("a b", 1),)},
        {"kwargs": (("class", 1),)},
        {"kwargs": (("\ufb01x", 1),)},
    ],
)
def test_names_of_arguments_are_names(attrs: dict[str, Attr]) -> None:
    with pytest.raises(OpModelError, match="no name of an argument"):
        call_text(OpQuery("ttnn.relu", (t(32, 32),), tuple(attrs.items())), ["x"])


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ttnn.transpose", {"dim0": math.inf, "dim1": 1}),
        ("ttnn.arange", {"start": 0.5, "end": 3, "step": 0}),
        ("ttnn.reshape", {"shape": (math.nan, 2)}),
        ("ttnn.reshape", {"shape": "x"}),
    ],
)
def test_numbers_that_are_none_cannot_be_written(op: str, attrs: dict[str, Attr]) -> None:
    with pytest.raises(OpModelError):
        call_text(OpQuery(op, (t(32, 32),), tuple(attrs.items())), ["x"])


def test_core_ranges_are_numbers() -> None:
    spec = ShardSpec((2, 1), (32, 64), (("0, 0)); print(1", 0, 1, 0),))  # type: ignore[arg-type]
    memory = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, spec)
    with pytest.raises((OpModelError, ValueError)):
        memory_config_text(memory)
