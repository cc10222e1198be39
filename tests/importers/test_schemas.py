"""Nodes are held to the schema of their op in the opset that the model states; what leaves no doubt passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.errors import InputError
from optimizer.importers import load
from optimizer.importers.onnx_attribute_values import RULES
from optimizer.importers.onnx_front_end import OPSETS
from optimizer.importers.onnx_ops import TABLE
from optimizer.importers.onnx_runtime_schemas import RUNTIME_SCHEMAS

F, F16, BF16, I64, I32, I8, BOOL = (
    TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT64, TensorProto.INT32,
    TensorProto.INT8, TensorProto.BOOL,
)  # fmt: skip
MS = "com.microsoft"
KERNEL = np.ones((4, 4, 3, 3), "f")
HALF = np.ones((1, 4, 4), "f")
"""Cosines or sines of heads of 8 elements."""


def ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def model(
    op: str, given: Sequence[Any], outputs: Mapping[str, int] | None = None, opset: int = 17, domain: str = "",
    **attrs: Any,
) -> onnx.ModelProto:  # fmt: skip
    """One node; each of `given` is an f32 input's shape, another's (shape, type), a weight's array or None."""
    names, inputs, weights = [], [], []
    for index, operand in enumerate(given):
        name = "" if operand is None else f"in{index}"
        names.append(name)
        if isinstance(operand, np.ndarray | np.generic):
            weights.append(numpy_helper.from_array(np.asarray(operand), name))
        elif operand is not None:
            shape, kind = operand if operand and isinstance(operand[0], tuple) else (operand, F)
            inputs.append(helper.make_tensor_value_info(name, kind, shape))
    outputs = {"y": F} if outputs is None else outputs
    node = helper.make_node(op, names, list(outputs), name="it", domain=domain, **attrs)
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items() if name]
    graph = helper.make_graph([node], "g", inputs, results, weights)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


X, PLANE, HEADS = (2, 8), (1, 4, 16, 16), (1, 2, 4, 8)
QUERY = (1, 4, 32)
REFUSED: dict[str, tuple[onnx.ModelProto, str]] = {
    # flags, strings and numbers that mean nothing
    "keepdims 3": (model("ReduceSum", [X], keepdims=3), "'keepdims' must be 0 or 1, not 3"),
    "keepdims of a constant": (model("ReduceMean", [np.ones(X, "f")], keepdims=-1), "'keepdims' must be 0 or 1"),
    "ceil_mode 16": (model("MaxPool", [PLANE], kernel_shape=[2, 2], ceil_mode=16), "'ceil_mode' must be 0 or 1"),
    "transA 5": (model("Gemm", [(8, 2), np.ones((8, 4), "f")], transA=5), "'transA' must be 0 or 1"),
    "largest 7": (model("TopK", [X, ints(1)], {"y": F, "i": I64}, largest=7), "'largest' must be 0 or 1"),
    "upper 2": (model("Trilu", [X], upper=2), "'upper' must be 0 or 1"),
    "count_include_pad 9": (
        model("AveragePool", [PLANE], kernel_shape=[2, 2], count_include_pad=9), "'count_include_pad' must be 0 or 1",
    ),
    "exclusive 2": (model("CumSum", [X, np.int64(0)], exclusive=2), "'exclusive' must be 0 or 1"),
    "mode of padding": (model("Pad", [X, ints(0, 1, 0, 1)], mode="foo"), "must be constant or reflect or edge or wrap"),
    "auto_pad": (model("Conv", [PLANE, KERNEL], auto_pad="SAME"), "'auto_pad' must be NOTSET or SAME_UPPER"),
    "approximation": (model("Gelu", [X], opset=20, approximate="foo"), "'approximate' must be none or tanh"),
    "order of depth": (model("DepthToSpace", [PLANE], blocksize=2, mode="XYZ"), "'mode' must be DCR or CRD"),
    "reduction": (
        model("ScatterElements", [X, np.zeros((1, 1), np.int64), np.ones((1, 1), "f")], opset=18, reduction="foo"),
        "'reduction' must be none or add or mul or max or min",
    ),
    "mode of a resize": (
        model("Resize", [PLANE, None, np.array([1, 1, 2, 2], "f")], mode="foo"), "nearest or linear or cubic",
    ),
    "policy of a resize": (
        model("Resize", [PLANE, None, None, ints(1, 4, 32, 32)], opset=18, keep_aspect_ratio_policy="foo"),
        "'keep_aspect_ratio_policy' must be stretch or not_larger",
    ),
    "group 0": (model("Conv", [PLANE, KERNEL], group=0), "'group' must be at least 1, not 0"),
    "negative pads": (model("Conv", [PLANE, KERNEL], pads=[-1, 0, 0, 0]), "'pads' must be at least 0, not -1"),
    "batch_dims -1": (model("GatherND", [X, np.zeros((1, 1), np.int64)], batch_dims=-1), "'batch_dims' must be"),
    "norm 3": (model("LpNormalization", [X], p=3), "'p' must be 1 or 2"),
    "type 99": (model("Cast", [X], to=99), "'to' must be a number of an element type, not 99"),
    "scores 9": (
        model("Attention", [HEADS] * 3, opset=23, qk_matmul_output_mode=9), "'qk_matmul_output_mode' must be",
    ),
    "negative epsilon": (
        model("SkipLayerNormalization", [QUERY, QUERY, np.ones(32, "f")], domain=MS, epsilon=-1.0),
        "'epsilon' must be at least 0",
    ),
    "bits 7": (
        model("MatMulNBits", [X, np.zeros((4, 1, 8), np.uint8), np.ones(4, "f")], domain=MS, N=4, K=8,
              block_size=16, bits=7),
        "'bits' must be 2 or 4 or 8",
    ),
    # attributes that contradict the rest of the node
    "both ways to pad": (model("Conv", [PLANE, KERNEL], auto_pad="SAME_UPPER", pads=[9] * 4), "both say how to pad"),
    "both ways to split": (
        model("Split", [X, ints(1, 1)], {"y": F, "z": F}, opset=18, num_outputs=2), "both say how to split",
    ),
    "windows of nothing": (model("MaxPool", [PLANE], kernel_shape=[2, 2], pads=[2] * 4), "windows would be empty"),
    "kernel of other weights": (model("Conv", [PLANE, KERNEL], kernel_shape=[5, 5]), "kernel of [3, 3]"),
    "padding beyond a stride": (model("ConvTranspose", [PLANE, KERNEL], output_padding=[5, 5]), "'output_padding'"),
    "scale of another width": (model("LayerNormalization", [X, np.ones(7, "f")]), "do not broadcast"),
    "repeats of another rank": (model("Tile", [X, ints(2)]), "1 repeats of a tensor of rank 2"),
    "letters of two sizes": (model("Einsum", [X, X], equation="ij,jk->ik"), "differ in size"),
    "one axis of time and batch": (
        model("ReverseSequence", [(4, 4), ints(1, 2, 3, 4)], time_axis=0, batch_axis=0), "are both 0",
    ),
    "lengths beyond the end": (model("ReverseSequence", [(4, 4), ints(1, 2, 9, 4)]), "lengths [1, 2, 9, 4]"),
    "rotation above the head": (
        model("RotaryEmbedding", [HEADS, HALF, HALF], opset=23, rotary_embedding_dim=999), "'rotary_embedding_dim' 999",
    ),
    "rotation of another width": (
        model("RotaryEmbedding", [HEADS, HALF, HALF], opset=23, rotary_embedding_dim=4), "'rotary_embedding_dim' 4",
    ),
    "tables wider than a head": (
        model("RotaryEmbedding", [HEADS, np.ones((1, 4, 8), "f"), np.ones((1, 4, 8), "f")], opset=23),
        "a rotation of 16 of the 8 elements of a head",
    ),
    "rotation of onnxruntime": (
        model("RotaryEmbedding", [(1, 4, 16), np.array([[0, 1, 2, 3]]), np.ones((8, 4), "f"), np.ones((8, 4), "f")],
              domain=MS, num_heads=2, rotary_embedding_dim=999),
        "",
    ),
    "keys without values": (model("Attention", [HEADS, HEADS, HEADS, None, HEADS], opset=23), "belong together"),
    "heads that do not divide": (
        model("Attention", [(1, 4, 25)] * 3, opset=23, q_num_heads=2, kv_num_heads=2), "2 heads of a width of 25",
    ),
    "no number of heads": (model("Attention", [(1, 4, 24)] * 3, opset=23), "attribute 'q_num_heads' is missing"),
    # element types
    "float bounds of a slice": (model("Slice", [X, np.zeros(1, "f"), np.ones(1, "f")]), "'starts' cannot be float"),
    "float indices": (model("Gather", [X, np.zeros(1, "f")]), "'indices' cannot be float"),
    "two types": (model("Add", [X, (X, I64)]), "'A' is float, but 'B' int64"),
    "two types of constants": (model("Add", [np.ones(X, "f"), np.ones(X, np.int64)]), "'A' is float, but 'B' int64"),
    "two floats": (model("Add", [X, (X, F16)]), "'A' is float, but 'B' float16"),
    "weights of another float": (model("Conv", [PLANE, KERNEL.astype(np.float16)]), "'X' is float, but 'W' float16"),
    "two types in a row": (model("Concat", [X, (X, F16)], axis=0), "'inputs' is float, but 'inputs' float16"),
    "floats as a condition": (model("Where", [X, X, X]), "'condition' cannot be float"),
    "logic of floats": (model("And", [X, X], {"y": BOOL}), "'A' cannot be float"),
    "padding of integers": (model("Pad", [X, ints(0, 1, 0, 1), np.int64(3)]), "'constant_value' int64"),
    "zero point of another type": (
        model("DequantizeLinear", [(X, I8), np.float32(1), np.uint8(1)]), "'x' is int8, but 'x_zero_point' uint8",
    ),
    "zero point of onnxruntime": (
        model("QLinearAdd", [((4,), I8), np.float32(1), np.uint8(1)] * 2 + [np.float32(1), np.uint8(1)], {"y": I8},
              domain=MS),
        "'A' is int8, but 'A_zero_point' uint8",
    ),
    # counts
    "surplus output": (model("Relu", [X], {"y": F, "z": F}), "has 2 outputs, not 1"),
    "surplus operand of onnxruntime": (model("Gelu", [X, X], domain=MS), "has 2 inputs, not 1"),
    "operand left out": (model("Gemm", [None, X]), "input 0 ('A') is missing"),
    "operand left out between others": (model("Concat", [X, None, X], axis=0), "input 1 ('inputs') is missing"),
    "unknown attribute": (model("Relu", [X], alpha=1.0), "'alpha' is none of the op's in this opset (none)"),
    "attribute of a later opset": (
        model("Resize", [PLANE, None, np.array([2, 2], "f")], opset=13, axes=[2, 3]), "'axes' is none of the op's",
    ),
    "attribute that became an operand": (model("ReduceSum", [X], opset=13, axes=[1]), "'axes' is none of the op's"),
    "unknown attribute of onnxruntime": (
        model("MultiHeadAttention", [QUERY] * 3, domain=MS, num_heads=4, foo=1), "'foo' is none of the op's",
    ),
    "attribute missing": (model("Concat", [X, X]), "'axis' is missing"),
    "attribute missing of onnxruntime": (model("MultiHeadAttention", [QUERY] * 3, domain=MS), "'num_heads' is missing"),
    "attribute of another type": (
        model("FusedMatMul", [X, (8, 4)], domain=MS, alpha="1"), "'alpha' must be of type float, not string",
    ),
    # axes
    "axis out of range": (model("Softmax", [X], axis=5), "axis 5 is outside of a tensor of rank 2"),
    "axis of a reduction twice": (model("ReduceMean", [X], axes=[1, -1]), "axes [1, -1] name a dim twice"),
    "axis of a constant twice": (model("ReduceMean", [np.ones(X, "f")], axes=[0, 0]), "axes [0, 0] name a dim twice"),
    "axis of a slice twice": (model("Slice", [X, ints(0, 0), ints(1, 1), ints(0, 0)]), "axes [0, 0] name a dim twice"),
    "axis of padding twice": (
        model("Pad", [X, ints(1, 1, 1, 1), None, ints(0, -2)], opset=18), "axes [0, -2] name a dim twice",
    ),
    "axis of scales": (
        model("DequantizeLinear", [(X, I8), np.ones(8, "f")], axis=9), "axis 9 is outside of a tensor of rank 2",
    ),
    "axis of a sum out of range": (model("CumSum", [X, np.int64(9)]), "axis 9 is outside of a tensor of rank 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_means_nothing_is_refused(case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(InputError) as refused:
        load(given.SerializeToString())
    assert words in str(refused.value)
    assert "it" in str(refused.value)


def test_an_attribute_that_is_given_twice() -> None:
    given = model("Softmax", [X], axis=0)
    given.graph.node[0].attribute.append(helper.make_attribute("axis", 1))
    with pytest.raises(InputError, match="Softmax 'it': attribute 'axis' is given twice"):
        load(given.SerializeToString())


TAKEN: dict[str, onnx.ModelProto] = {
    "bf16 before the opset says so": model("Conv", [(PLANE, BF16), (KERNEL.shape, BF16)], {"y": BF16}, opset=17),
    "operand that later opsets do without": model(
        "Resize", [PLANE, None, np.array([1, 1, 2, 2], "f")], opset=11, mode="nearest"
    ),
    "default of a later opset": model("ReduceMean", [X], opset=13, axes=[1], noop_with_empty_axes=0),
    "default of an earlier opset": model("BatchNormalization", [PLANE, *[np.ones(4, "f")] * 4], spatial=1),
    "note of a runtime": model("Relu", [X], __backend="x"),
    "output without a name": model("Relu", [X], {"y": F, "": F}),
    "floor remainder of floats": model("Mod", [X, X]),
    "one scale has no axis": model("DequantizeLinear", [(X, I8), np.float32(1)], axis=9),
    "flattened after the last axis": model("Flatten", [X], axis=2),
    "no padding beside the automatic one": model("Conv", [PLANE, KERNEL], auto_pad="SAME_UPPER", pads=[0] * 4),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_leaves_no_doubt_is_taken(case: str) -> None:
    assert load(TAKEN[case].SerializeToString()).graph.outputs == ("y",)


def test_f32_weights_beside_bf16_are_taken_as_torch_writes_them() -> None:
    given = model("Conv", [(PLANE, BF16), KERNEL], {"y": BF16}, opset=22)
    assert load(given.SerializeToString()).report.unsupported == ()
    given.graph.input.append(helper.make_tensor_value_info("in1", F, KERNEL.shape))
    del given.graph.initializer[:]
    with pytest.raises(InputError, match="'X' is bfloat16, but 'W' float"):
        load(given.SerializeToString())


NOT_MAPPED = {
    "rounded softmax": ({"smooth_softmax": 1}, []),
    "keys of the future": ({"causal": 0}, []),
    "sinks": ({}, [None] * 4 + [np.ones(4, "f")]),
    "quantised cache": ({"k_quant_type": "PER_TENSOR"}, []),
}


@pytest.mark.parametrize("case", NOT_MAPPED)
def test_what_a_mapping_does_not_read_is_not_mapped(case: str) -> None:
    attrs, more = NOT_MAPPED[case]
    operands = [QUERY, (1, 4, 16), (1, 4, 16), None, None, np.array([3], np.int32), np.int32(4), *more]
    given = model("GroupQueryAttention", operands, domain=MS, num_heads=4, kv_num_heads=2, **attrs)
    given.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", F, QUERY))
    unsupported = [op for op, _ in load(given.SerializeToString()).report.unsupported]
    assert unsupported == ["onnx.com.microsoft.GroupQueryAttention"]


def test_dropout_in_training_is_not_mapped() -> None:
    given = model("Dropout", [X, np.float32(0.5), np.bool_(True)])
    assert [op for op, _ in load(given.SerializeToString()).report.unsupported] == ["onnx.Dropout"]


FREE = frozenset(
    {"axis", "batch_axis", "time_axis", "k", "value_int", "value_string", "equation", "start", "end", "maxsplit"}
    | {"max_gram_length", "min_gram_length", "ignore_index", "seed", "delimiter", "locale", "pattern"}
    | {"activation", "broadcast"}
)
"""Attributes whose values are told apart by shapes, by their readers, or not at all."""


def test_every_attribute_has_a_rule_or_is_free() -> None:
    """A new version of ONNX cannot add a flag that nobody looks at."""
    kinds = (onnx.defs.OpSchema.AttrType.INT, onnx.defs.OpSchema.AttrType.STRING)
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= OPSETS[-1]]
    open_ = {
        f"{schema.name}.{name}"
        for schema in [*schemas, *RUNTIME_SCHEMAS.values()]
        for name, attribute in schema.attributes.items()
        if attribute.type in kinds and {name, f"{schema.name}.{name}"}.isdisjoint(RULES) and name not in FREE
    }
    assert open_ == set()


def test_schemas_of_onnxruntime_are_what_it_says() -> None:
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    theirs = {(s.domain, s.name): s for s in state.get_all_operator_schema()}
    for key, ours in RUNTIME_SCHEMAS.items():
        if key not in theirs:
            assert key == (MS, "SimplifiedLayerNormalization")
            continue
        other = theirs[key]
        for own, said in ((ours.inputs, other.inputs), (ours.outputs, other.outputs)):
            mine = [(p.name, p.type_str, p.option.name) for p in own]
            assert mine == [(p.name, p.typeStr, p.option.name) for p in said]
        assert {n: (a.type.name, a.required, _default(a.default_value)) for n, a in ours.attributes.items()} == {
            n: (a.type.name, a.required, _default(onnx.AttributeProto.FromString(a._default_value)))
            for n, a in other.attributes.items()
        }
        taken = {c.type_param_str: set(c.allowed_type_strs) for c in ours.type_constraints}
        assert all(set(c.allowed_type_strs) <= taken[c.type_param_str] for c in other.type_constraints)


def _default(given: onnx.AttributeProto) -> Any:
    return onnx.helper.get_attribute_value(given) if given.name else None


def test_every_op_of_another_domain_that_is_mapped_has_a_schema() -> None:
    mapped = {tuple(key.rpartition(".")[::2]) for key in TABLE}
    versions = range(OPSETS[0], OPSETS[-1] + 2)  # Swish came after the last opset that is read
    unknown = {
        (domain, name) for domain, name in mapped
        if (domain, name) not in RUNTIME_SCHEMAS and not any(onnx.defs.has(name, v, domain) for v in versions)
    }  # fmt: skip
    assert unknown == set()
