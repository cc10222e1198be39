"""Every op of tt-mlir's dialect that has a rule gives one of our ops with the result that the plan states."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from plan_text import plan_record, tensor, written
from tt_mlir.dialect import translated_ops
from tt_mlir.document import read_plan
from tt_mlir.program import plan_program

from optimizer.errors import GraphError, UnsupportedOpError
from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.importers.onnx_node import BF16_MAX
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import (
    Conv2dConfig,
    LayerNormShardedMultiCoreProgramConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    SDPAProgramConfig,
)

X = (1, 1, 64, 128)
SQUARE = (1, 2, 64, 64)
CONV = {
    "batch_size": 1, "input_height": 8, "input_width": 8, "in_channels": 128, "out_channels": 64,
    "kernel_size": [3, 3], "stride": [1, 1], "padding": [1, 1, 1, 1], "dilation": [1, 1], "groups": 1,
}  # fmt: skip
POOL = {
    "batch_size": 1, "input_height": 8, "input_width": 8, "channels": 128, "kernel_size": [2, 2], "stride": [2, 2],
    "padding": [0, 0], "dilation": [1, 1], "ceil_mode": False,
}  # fmt: skip
HEADS = (1, 4, 64, 64)

Case = tuple[str, tuple[Any, ...], tuple[Any, ...], dict[str, Any], str]
"""Op, operands, results (shapes, or tensors), attributes, name of our op."""

CASES: list[Case] = [
    *((f"ttnn.{name}", (X,), (X,), {}, f"ttnn.{name}") for name in UNARY),
    *((f"ttnn.{name}", (X, X), (X,), {}, f"ttnn.{name}") for name in BINARY),
    *((f"ttnn.{n}", (X,), ((1, 1, 64, 1),), {"dim_arg": [3], "keep_dim": True}, f"ttnn.{n}") for n in REDUCTIONS),
    ("ttnn.mean", (X,), ((1, 1),), {"dim_arg": [-2, -1], "keep_dim": False}, "ttnn.mean"),
    ("ttnn.sum", (X,), ((),), {"keep_dim": False}, "ttnn.sum"),
    ("ttnn.pow_tensor", (X, X), (X,), {}, "ttnn.pow"),
    ("ttnn.logical_left_shift", (X, X), (X,), {}, "ttnn.bitwise_left_shift"),
    ("ttnn.leaky_relu", (X,), (X,), {"parameter": 0.1}, "ttnn.leaky_relu"),
    ("ttnn.elu", (X,), (X,), {"alpha": 1.0}, "ttnn.elu"),
    ("ttnn.pow_scalar", (X,), (X,), {"rhs": 2.0}, "ttnn.pow_scalar"),
    ("ttnn.clamp_scalar", (X,), (X,), {"min": 0.0, "max": 6.0}, "ttnn.clamp"),
    ("ttnn.where", (X, X, X), (X,), {}, "ttnn.where"),
    ("ttnn.typecast", (X,), (tensor(X, "f32"),), {}, "ttnn.typecast"),
    ("ttnn.to_dtype", (X,), (tensor(X, "u32"),), {}, "ttnn.typecast"),
    ("ttnn.assign", (X,), (X,), {}, "ttnn.identity"),
    ("ttnn.copy", (X,), (X,), {}, "ttnn.identity"),
    ("ttnn.clone", (X,), (X,), {}, "ttnn.identity"),
    ("ttnn.matmul", (X, (128, 256)), ((1, 1, 64, 256),), {"transpose_a": False}, "ttnn.matmul"),
    ("ttnn.linear", (X, (256, 128), (256,)), ((1, 1, 64, 256),), {"transpose_b": True}, "ttnn.linear"),
    ("ttnn.conv2d", (X, tensor((1, 1, 1152, 64), role="parameter")), ((1, 1, 64, 64),), CONV, "ttnn.conv2d"),
    (
        "ttnn.conv_transpose2d",
        (X, tensor((128, 64, 3, 3), role="parameter")),
        ((1, 1, 64, 64),),
        {**CONV, "output_padding": [0, 0]},
        "ttnn.conv_transpose2d",
    ),
    ("ttnn.max_pool2d", (X,), ((1, 1, 16, 128),), POOL, "ttnn.max_pool2d"),
    (
        "ttnn.avg_pool2d",
        (X,),
        ((1, 1, 16, 128),),
        {**POOL, "count_include_pad": False, "applied_shard_scheme": "height_sharded"},
        "ttnn.avg_pool2d",
    ),
    ("ttnn.global_avg_pool2d", ((2, 8, 8, 64),), ((2, 1, 1, 64),), {}, "ttnn.global_avg_pool2d"),
    ("ttnn.upsample", ((1, 8, 8, 64),), ((1, 16, 16, 64),), {"scale_factor": 2, "mode": "nearest"}, "ttnn.upsample"),
    ("ttnn.softmax", (X,), (X,), {"dimension": 3, "numericStable": True}, "ttnn.softmax"),
    (
        "ttnn.layer_norm",
        (X, (128,), (128,)),
        (X,),
        {"epsilon": 1e-5, "operandSegmentSizes": [1, 1, 1]},
        "ttnn.layer_norm",
    ),
    ("ttnn.rms_norm", (X, (128,)), (X,), {"epsilon": 1e-5, "operandSegmentSizes": [1, 1, 0]}, "ttnn.rms_norm"),
    (
        "ttnn.group_norm",
        (X, (1, 4, 32, 32), (128,), (128,)),
        (X,),
        {"num_groups": 4, "operandSegmentSizes": [1, 1, 1, 1]},
        "ttnn.group_norm",
    ),
    ("ttnn.batch_norm", (X, *((1, 1, 1, 1),) * 4), (X,), {"operandSegmentSizes": [1, 1, 1, 1, 1]}, "ttnn.batch_norm"),
    ("ttnn.batch_norm_inference", (X, *((1, 1, 1, 1),) * 4), (X,), {"epsilon": 1e-5}, "ttnn.batch_norm"),
    ("ttnn.argmax", (X,), (tensor((1, 1, 64), "u32"),), {"dim": 3, "keep_dim": False}, "ttnn.argmax"),
    ("ttnn.topk", (X,), ((1, 1, 64, 8), tensor((1, 1, 64, 8), "u16")), {"k": 8, "dim": -1}, "ttnn.topk"),
    ("ttnn.sort", (X,), (X, tensor(X, "u16")), {"dim": -1, "descending": True}, "ttnn.sort"),
    ("ttnn.cumsum", (X,), (X,), {"dim": 2}, "ttnn.cumsum"),
    ("ttnn.moreh_cumsum", (X,), (X,), {"dim": 2}, "ttnn.cumsum"),
    ("ttnn.reshape", (X,), ((64, 128),), {"shape": [64, 128]}, "ttnn.reshape"),
    ("ttnn.permute", (SQUARE,), ((1, 64, 2, 64),), {"permutation": [0, 2, 1, 3]}, "ttnn.permute"),
    ("ttnn.transpose", (X,), ((1, 1, 128, 64),), {"dim0": -2, "dim1": -1}, "ttnn.transpose"),
    ("ttnn.concat", (X, X), ((1, 1, 128, 128),), {"dim": 2}, "ttnn.concat"),
    (
        "ttnn.slice_static",
        (X,),
        ((1, 1, 32, 64),),
        {"begins": [0, 0, 32, 0], "ends": [1, 1, 64, -64], "step": [1, 1, 1, 1]},
        "ttnn.slice",
    ),
    ("ttnn.slice", (X,), ((1, 1, 32, 128),), {"begins": [0, 0, 0, 0], "ends": [1, 1, 32, 999]}, "ttnn.slice"),
    (
        "ttnn.slice_dynamic",
        (X, tensor((4,), "i32", page="row_major"), tensor((4,), "i32", page="row_major")),
        ((1, 1, 32, 128),),
        {},
        "ttnn.slice",
    ),
    ("ttnn.pad", (X,), ((1, 1, 64, 160),), {"padding": [0, 0, 0, 0, 0, 0, 0, 32], "value": 0.0}, "ttnn.pad"),
    ("ttnn.repeat", (X,), ((1, 3, 64, 128),), {"repeat_dims": "1x3x1x1"}, "ttnn.repeat"),
    ("ttnn.repeat_interleave", (SQUARE,), ((1, 4, 64, 64),), {"repeats": 2, "dim": 1}, "ttnn.repeat_interleave"),
    ("ttnn.embedding", (tensor((1, 16), "u32", page="row_major"), (99, 64)), ((1, 16, 64),), {}, "ttnn.embedding"),
    (
        "ttnn.rows_gather",
        (tensor((1, 99, 64), page="row_major", role="parameter"), tensor((1, 16), "u32", page="row_major")),
        ((1, 16, 64),),
        {"column": False, "fill_out_of_bounds": False, "sizes": [99], "windows": [1]},
        "ttnn.embedding",
    ),
    ("ttnn.gather", (X, tensor((1, 1, 64, 4), "u32")), ((1, 1, 64, 4),), {"dim": 3}, "ttnn.gather"),
    ("ttnn.scatter", (X, tensor((1, 1, 64, 4), "u32"), (1, 1, 64, 4)), (X,), {"dim": 3}, "ttnn.scatter"),
    (
        "ttnn.scaled_dot_product_attention",
        (HEADS, HEADS, HEADS),
        (HEADS,),
        {"is_causal": True, "scale": 0.125, "operandSegmentSizes": [1, 1, 1, 0, 0]},
        "ttnn.scaled_dot_product_attention",
    ),
    (
        "ttnn.scaled_dot_product_attention_decode",
        ((1, 2, 8, 64), (2, 8, 256, 64), (2, 8, 256, 64), tensor((2,), "i32", page="row_major")),
        ((1, 2, 8, 64),),
        {"is_causal": True, "operandSegmentSizes": [1, 1, 1, 0, 1, 0]},
        "ttnn.scaled_dot_product_attention_decode",
    ),
    (
        "ttnn.paged_scaled_dot_product_attention_decode",
        ((1, 2, 8, 64), (16, 8, 32, 64), (16, 8, 32, 64), tensor((2, 8), "i32", page="row_major")),
        ((1, 2, 8, 64),),
        {"is_causal": True, "operandSegmentSizes": [1, 1, 1, 1, 0, 0, 0]},
        "ttnn.scaled_dot_product_attention_decode",
    ),
    (
        "ttnn.split_query_key_value_and_split_heads",
        ((1, 64, 768),),
        (HEADS, (1, 4, 64, 64), HEADS),
        {"num_heads": 4, "transpose_key": False},
        "ttnn.split_query_key_value_and_split_heads",
    ),
    (
        "ttnn.nlp_create_qkv_heads",
        ((1, 1, 64, 768),),
        (HEADS, HEADS, HEADS),
        {"num_q_heads": 4, "num_kv_heads": 4, "transpose_k_heads": False},
        "ttnn.nlp_create_qkv_heads",
    ),
    ("ttnn.concatenate_heads", (HEADS,), ((1, 64, 256),), {}, "ttnn.concatenate_heads"),
    ("ttnn.nlp_concat_heads", (HEADS,), ((1, 1, 64, 256),), {}, "ttnn.nlp_concat_heads"),
    (
        "ttnn.rotary_embedding_llama",
        (HEADS, (1, 1, 64, 64), (1, 1, 64, 64), (1, 1, 32, 32)),
        (HEADS,),
        {"is_decode_mode": False},
        "ttnn.rotary_embedding",
    ),
    ("ttnn.rotary_embedding", (HEADS, (1, 1, 64, 64), (1, 1, 64, 64)), (HEADS,), {}, "ttnn.rotary_embedding"),
]


def one_op(folder: Path, op: str, operands: tuple[Any, ...], results: tuple[Any, ...], attrs: dict[str, Any]) -> Op:
    """Our op for a plan of one op."""
    described = [t if isinstance(t, dict) else tensor(t) for t in operands]
    described = [{**t, "role": t["role"] or "input"} for t in described]
    made = [t if isinstance(t, dict) else tensor(t) for t in results]
    program = plan_program(read_plan(written(folder, plan_record(op, described, made, attrs))))
    ops = list(program.graph.ops())
    assert len(ops) == 1
    return ops[0]


@pytest.mark.parametrize("case", CASES, ids=[f"{case[0]}-{k}" for k, case in enumerate(CASES)])
def test_an_op_of_the_dialect_is_one_of_ours(tmp_path: Path, case: Case) -> None:
    op, operands, results, attrs, ours = case

    found = one_op(tmp_path, op, operands, results, attrs)

    assert found.op == ours
    assert not opdef(found.op).opaque
    assert found.origin == ("the_op",)


def test_every_rule_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(translated_ops())


def _config(folder: Path, op: str, operands: tuple[Any, ...], results: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    described = [{**(t if isinstance(t, dict) else tensor(t, role="input"))} for t in operands]
    record = plan_record(op, described, [tensor(t) for t in results], attrs)
    return next(iter(plan_program(read_plan(written(folder, record))).configs.values()))


BLOCKS = {
    "compute_with_storage_grid_size": [8, 4], "in0_block_w": 2, "out_subblock_h": 1, "out_subblock_w": 4,
    "out_block_h": 1, "out_block_w": 4, "per_core_m": 1, "per_core_n": 4, "fuse_batch": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "expected"),
    [
        (
            "ttnn.matmul",
            (X, (128, 256)),
            {"matmul_program_config": {**BLOCKS, "_": "matmul_multi_core_reuse_multi_cast_program_config"}},
            MatmulMultiCoreReuseMultiCastProgramConfig((4, 8), 2, 1, 4, 1, 4),
        ),
        (
            "ttnn.matmul",
            (X, (128, 256)),
            {
                "matmul_program_config": {
                    **BLOCKS,
                    "mcast_in0": False,
                    "fused_activation": {"op_type": "gelu"},
                    "_": "matmul_multi_core_reuse_multi_cast_1d_program_config",
                }
            },
            MatmulMultiCoreReuseMultiCast1DProgramConfig(
                (4, 8), 2, 1, 4, 1, 4, mcast_in0=False, fused_activation="gelu"
            ),
        ),
        (
            "ttnn.conv2d",
            (X, tensor((1, 1, 1152, 64), role="parameter")),
            {
                **CONV,
                "conv2d_config": {
                    "weights_dtype": "bfp_bf8",
                    "activation": {"op_type": "relu"},
                    "deallocate_activation": True,
                    "act_block_h_override": 64,
                    "shard_layout": "height_sharded",
                    "config_tensors_in_dram": True,
                    "_": "conv2d_config",
                },
                "conv2d_slice_config": {"slice_type": "dram_width", "num_slices": 4},
            },
            Conv2dConfig(
                "bfp8_b",
                "relu",
                deallocate_activation=True,
                act_block_h_override=64,
                shard_layout="height_sharded",
                slice="dram_width:4",
            ),
        ),
        (
            "ttnn.rms_norm",
            (X, (128,)),
            {
                "program_config": {
                    "_": "layernorm_sharded_multicore_program_config",
                    "compute_with_storage_grid_size": [8, 1],
                    "subblock_w": 1,
                    "block_h": 2,
                    "block_w": 4,
                    "inplace": False,
                }
            },
            LayerNormShardedMultiCoreProgramConfig((1, 8), 1, 2, 4),
        ),
        (
            "ttnn.scaled_dot_product_attention",
            (HEADS, HEADS, HEADS),
            {
                "program_config": {
                    "compute_with_storage_grid_size": [8, 8],
                    "q_chunk_size": 64,
                    "k_chunk_size": 128,
                }
            },
            SDPAProgramConfig((8, 8), 64, 128),
        ),
    ],
)
def test_configs_are_taken_over(
    tmp_path: Path, op: str, operands: tuple[Any, ...], attrs: dict[str, Any], expected: object
) -> None:
    results = {"ttnn.matmul": (1, 1, 64, 256), "ttnn.conv2d": (1, 1, 64, 64), "ttnn.rms_norm": X}.get(op, HEADS)

    assert _config(tmp_path, op, operands, (results,), attrs) == expected


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "said"),
    [
        ("ttnn.paged_flash_multi_latent_attention_decode", (X,), {}, "the vocabulary has no such op"),
        (
            "ttnn.add",
            (X, X),
            {"activations": [{"op_type": "leaky_relu", "params": [0.1]}]},
            "fused activation leaky_relu with parameters",
        ),
        ("ttnn.rows_gather", (X, X), {"windows": [2]}, "a gather of anything but the rows of one table"),
        ("ttnn.scaled_dot_product_attention", (X, X, X), {"sliding_window_size": 128}, "sliding_window_size = 128"),
    ],
)
def test_what_has_no_counterpart_is_named(
    tmp_path: Path, op: str, operands: tuple[Any, ...], attrs: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnsupportedOpError) as error:
        one_op(tmp_path, op, operands, (X,), attrs)

    assert said in str(error.value)
    assert op in str(error.value)
    assert "the_op" in str(error.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"_": "matmul_multi_core_reuse_multi_cast_dram_sharded_program_config", "in0_block_w": 4},
            "matmul_multi_core_reuse_multi_cast_dram_sharded_program_config is priced as TTNN's own choice",
        ),
        (
            {**BLOCKS, "out_block_w": 2, "_": "matmul_multi_core_reuse_multi_cast_program_config"},
            "priced without out_block_w = 2 of 4 tiles",
        ),
    ],
)
def test_what_only_changes_how_an_op_runs_is_noted(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    operands = [tensor(X, role="input"), tensor((128, 128), role="parameter")]
    record = plan_record("ttnn.matmul", operands, [tensor(X)], {"matmul_program_config": config})

    read = plan_program(read_plan(written(tmp_path, record)))

    assert len(read.notes) == 1
    assert said in read.notes[0]


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ttnn.pad", {"padding": [0, 0, 0]}),
        ("ttnn.pad", {"padding": [0] * 8, "value": float("nan")}),
        ("ttnn.matmul", {"matmul_program_config": "reuse, 8x8"}),
    ],
)
def test_attributes_that_do_not_fit_are_refused(tmp_path: Path, op: str, attrs: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="operands or attributes do not fit"):
        one_op(tmp_path, op, (X,), (X,), attrs)


@pytest.mark.parametrize(
    ("op", "given", "kept"),
    [
        ("ttnn.pad", {"padding": [0] * 8, "value": -math.inf}, {"padding": ((0, 0),) * 4, "value": -BF16_MAX}),
        ("ttnn.clamp_scalar", {"min": 0.5, "max": math.inf}, {"min": 0.5, "max": None}),
        ("ttnn.leaky_relu", {"parameter": math.inf}, {"negative_slope": BF16_MAX}),
    ],
)
def test_infinite_numbers_become_the_largest(
    tmp_path: Path, op: str, given: dict[str, Any], kept: dict[str, Any]
) -> None:
    found = one_op(tmp_path, op, (X,), (X,), given)

    assert found.attrs == kept


def test_rows_are_looked_up_by_the_numbers_before_their_reshape(tmp_path: Path) -> None:
    ids = tensor((1, 16), "si32", page="row_major", role="input")
    table = tensor((1, 99, 64), page="row_major", role="parameter")
    record = plan_record("ttnn.rows_gather", [table, ids], [tensor((1, 16, 64), page="row_major")], {"sizes": [99]})
    main = record["functions"]["main"]
    main["tensors"]["%r"] = tensor((1, 1, 16), "si32", page="row_major")
    main["ops"][0]["in"] = ["%arg0", "%r"]
    main["ops"].insert(0, {"op": "ttnn.reshape", "in": ["%arg1"], "out": ["%r"], "attrs": {"shape": [1, 1, 16]}})

    graph = plan_program(read_plan(written(tmp_path, record))).graph

    assert [op.op for op in graph.ops()] == ["ttnn.typecast", "ttnn.embedding"]
    lookup = graph.op("embedding_0")
    assert [graph.value(v).shape for v in lookup.inputs] == [(1, 16), (99, 64)]
    assert [graph.value(v).dtype for v in lookup.inputs] == [DType.U32, DType.BF16]


@pytest.mark.parametrize(("page", "conversions"), [("tile", 0), ("row_major", 1)])
def test_a_computed_bias_is_added(tmp_path: Path, page: str, conversions: int) -> None:
    bias = tensor((1, 1, 1, 64), role="input", page=page)
    operands = [tensor(X, role="input"), tensor((1, 1, 1152, 64), role="parameter"), bias]
    attrs = {**CONV, "conv2d_config": {"activation": {"op_type": "relu"}, "_": "conv2d_config"}}
    record = plan_record("ttnn.conv2d", operands, [tensor((1, 1, 64, 64))], attrs)
    main = record["functions"]["main"]
    main["tensors"]["%b"] = tensor((1, 1, 1, 64))
    main["tensors"]["%r"] = tensor((1, 1, 1, 64), page="row_major")
    main["ops"][0]["in"] = ["%arg0", "%arg1", "%b"]
    main["ops"][:0] = [
        {"op": "ttnn.to_layout", "in": ["%arg2"], "out": ["%r"]},
        {"op": "ttnn.prepare_conv2d_bias", "in": ["%r"], "out": ["%b"]},
    ]

    read = plan_program(read_plan(written(tmp_path, record)))

    *tiled, conv, add = read.graph.ops()
    assert [op.op for op in (*tiled, conv, add)] == [*["ttnn.to_layout"] * conversions, "ttnn.conv2d", "ttnn.add"]
    assert (len(conv.inputs), conv.attrs["activation"], read.configs[conv.id]) == (2, None, Conv2dConfig(slice="auto"))
    assert add.inputs == (conv.outputs[0], tiled[0].outputs[0] if tiled else "arg2")
    assert add.attrs == {"activations": ("relu",)}
    assert read.graph.outputs == add.outputs
    assert "its bias is computed" in read.notes[0]


def test_rows_that_fill_a_tile_are_left_out_of_a_rotary_embedding(tmp_path: Path) -> None:
    step, table = (1, 4, 1, 64), (1, 1, 1, 64)

    found = one_op(tmp_path, "ttnn.rotary_embedding", (step, table, table), ((1, 4, 32, 64),), {})

    assert found.op == "ttnn.rotary_embedding"
    with pytest.raises(GraphError, match="our rule gives"):
        one_op(tmp_path, "ttnn.rotary_embedding", (step, table, table), ((1, 4, 64, 64),), {})


@pytest.mark.parametrize(
    ("op", "operand", "stated", "kept", "casts"),
    [
        ("ttnn.gt", "si32", "bf16", DType.I32, 0),
        ("ttnn.add", "bf16", "f32", DType.F32, 1),
        ("ttnn.add", "bf16", "bf16", DType.BF16, 0),
    ],
)
def test_an_element_type_of_the_plans_own(
    tmp_path: Path, op: str, operand: str, stated: str, kept: DType, casts: int
) -> None:
    operands = [tensor(X, operand, role="input"), tensor(X, operand, role="input")]
    record = plan_record(op, operands, [tensor(X, stated)])

    read = plan_program(read_plan(written(tmp_path, record)))

    assert read.graph.value(read.graph.outputs[0]).dtype is kept
    assert [o.op for o in read.graph.ops()] == [op, *["ttnn.typecast"] * casts]
    assert len(read.notes) == casts


def test_operand_activations_are_kept(tmp_path: Path) -> None:
    attrs = {"activations": [], "input_tensor_a_activations": [{"op_type": "silu", "_": "unary_with_param"}]}

    found = one_op(tmp_path, "ttnn.multiply", (X, X), (X,), attrs)

    assert found.attrs == {"input_tensor_a_activations": ("silu",)}
