"""The emitted TTNN program: complete, correct in its lifetimes, laid out as the formatter would, safe."""

from __future__ import annotations

import ast
import math
import struct
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from expanded_configs import expanded
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.export.registry import emit, emitter_names
from optimizer.export.ttnn_py import ProgramStep, TTNNProgram, placeholder_text, render, ttnn_program
from optimizer.export.ttnn_py.formatting import LINE_LENGTH, comment, laid_out
from optimizer.export.ttnn_py.names import RESERVED, Names
from optimizer.export.ttnn_py.preparation import prepared_text
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.positions import ABSENT_OPERANDS, ABSENT_RESULTS
from optimizer.layouts.memory_config import (
    DRAM_ROW_MAJOR,
    DRAM_TILE,
    HOST_ROW_MAJOR,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import Conv2dConfig, overwritten_operand
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.process.identifiers import LONGEST, resembling
from optimizer.result import OptimizedGraph, Role
from tests.plans import planned
from tests.samples import examples

ROOT = Path(__file__).resolve().parent.parent.parent
GIVEN = {"ttnn", "device", "tensors", "inputs", "parameters", "make_tensors", "make_inputs", "PARAMETERS", "host_op"}
CONV: dict[str, Any] = {
    "batch_size": 1,
    "input_height": 32,
    "input_width": 32,
    "kernel_size": (3, 3),
    "padding": (1, 1, 1, 1),
}


def optimized(graph: Graph, policy: str = "dfsharding", **options: object) -> OptimizedGraph:
    chosen = Options.from_mapping({"policy": policy, "board": "n150", **options})
    return planned(graph, DeviceSpec.preset("n150"), chosen)


def small_cnn() -> Graph:
    """conv -> relu -> reshape -> linear, with a scale computed from weights and an embedded constant."""
    b = GraphBuilder("small cnn")
    x = b.input("images", (1, 1, 1024, 64))
    w, bias = b.parameter("conv.weight", (64, 64, 3, 3)), b.parameter("conv.bias", (64,))
    row = b.op("ttnn.reshape", bias, shape=(1, 1, 1, 64), name="bias_row")
    y = b.op("ttnn.conv2d", x, w, row, name="/features/conv", in_channels=64, out_channels=64, **CONV)
    scale = b.constant("scale", (1, 1, 1, 64), tuple(float(i) for i in range(64)))
    factor = b.op("ttnn.multiply", scale, b.parameter("gain", (1, 1, 1, 64)), name="factor")
    y = b.op("ttnn.multiply", y, factor, name="/features/scaled")
    y = b.op("ttnn.reshape", y, shape=(1, 32, 32, 64), name="/features/view")
    y = b.op("ttnn.linear", y, b.parameter("fc.weight", (64, 128)), name="/fc", activation="relu")
    return b.finish(y)


def steps_of(program: TTNNProgram) -> list[ProgramStep]:
    return [*program.parameter_steps, *program.run_steps]


# -- the file ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("policy", ["dram", "dfsharding"])
def test_golden_program(policy: str, golden: Callable[[str, str], None]) -> None:
    golden(f"ttnn_py/small_cnn.{policy}.py.txt", render(ttnn_program(optimized(small_cnn(), policy))))


@pytest.mark.parametrize("policy", ["dram", "dfsharding"])
def test_formatter_and_linter_have_nothing_to_say(policy: str, tmp_path: Path) -> None:
    paths = []
    for name in ("attention", "conv2d_relu", "fork", "mlp", "opaque", "concat"):
        result = optimize_file(
            ROOT / "fixtures" / "graphs" / f"{name}.json", Options(policy=policy, allow_host_ops=True)
        )
        paths.append(emit(result, "ttnn-py", tmp_path / name))
    paths.append(emit(optimized(small_cnn(), policy), "ttnn-py", tmp_path / "small_cnn"))
    assert {path.name for path in paths} == {"model_ttnn.py"}
    ruff = [sys.executable, "-m", "ruff"]
    own = ["--isolated", "--line-length", str(LINE_LENGTH)]
    for words in (["format", "--check", *own], ["check", "--select", "E,F,I,W,B,UP", *own]):
        done = subprocess.run([*ruff, *words, *map(str, paths)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_program_imports_only_ttnn_and_the_standard_library() -> None:
    tree = ast.parse(render(ttnn_program(optimized(small_cnn()))))
    modules = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
    assert modules <= {"ttnn", *sys.stdlib_module_names}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"make_inputs", "make_parameters", "run", "main"} <= functions


def test_emitter_is_registered() -> None:
    assert "ttnn-py" in emitter_names()


@pytest.mark.parametrize("policy", ["dram", "dfsharding"])
def test_program_contains_exactly_the_calls_that_were_asked(policy: str) -> None:
    """Every op's statement is `results = <text of its query>`, with the operands' variables."""
    result = optimized(small_cnn(), policy)
    program = ttnn_program(result)
    variables = {value: name for step in steps_of(program) for name, value in step.results}
    by_op = {step.op: step for step in program.run_steps if step.op is not None}
    assert [*by_op] == [op.id for op in result.graph.ops() if not result.graph.is_const_eval(op)]
    for op_id, step in by_op.items():
        op, record = result.graph.op(op_id), result.records[op_id]
        query = op_query(result.graph, op, [result.layouts[v] for v in op.inputs], record.config, record.request)
        operands = [variables.get(v, resembling(v)) for v in op.inputs]
        if op.op == "ttnn.conv2d":  # its weights are prepared once, in variables of their own
            operands[1:] = ["features_conv_weight", "features_conv_bias"]
        assign = ast.parse(step.code).body[0]
        assert isinstance(assign, ast.Assign)
        assert expanded(ast.unparse(assign.value), program.configs) == ast.unparse(
            ast.parse(call_text(query, operands))
        )


# -- running it against a stand-in for ttnn ------------------------------------------------------------------
DEVICE = types.SimpleNamespace(arch=lambda: "wormhole_b0")


class Recorder(types.ModuleType):
    """A module whose every function notes its calls and returns a fresh object."""

    class Tensor:
        def __init__(self, *args: Any, **keywords: Any) -> None:
            self.args, self.keywords = args, keywords

    def __init__(self) -> None:
        super().__init__("ttnn")
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Recorded(self, name)


class Recorded:
    """An attribute of a recorder: a name, a namespace, and a function, as needed."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self._recorder, self._name = recorder, name

    def __getattr__(self, name: str) -> Any:
        return Recorded(self._recorder, name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        self._recorder.calls.append(self._name)
        return Recorder.Tensor(*args, **keywords)


def module_of(program: TTNNProgram, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], Recorder]:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "ttnn", recorder)
    names: dict[str, Any] = {"__name__": "model_ttnn"}
    exec(compile(render(program), "model_ttnn.py", "exec"), names)
    return names, recorder


def test_run_returns_the_outputs_and_parameters_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names, recorder = module_of(ttnn_program(optimized(small_cnn())), monkeypatch)
    parameters = names["make_parameters"](DEVICE, placeholders=True)
    assert recorder.calls.count("prepare_conv_weights") == 1
    assert recorder.calls.count("prepare_conv_bias") == 1
    recorder.calls.clear()
    outputs = names["run"](DEVICE, names["make_inputs"](DEVICE, placeholders=True), parameters)
    assert len(outputs) == 1
    assert "prepare_conv_weights" not in recorder.calls
    assert {"conv2d", "linear", "deallocate"} <= set(recorder.calls)


def test_weights_come_to_l1_after_everything_else_is_prepared() -> None:
    """`w` is read as it is and, scaled, as a weight computed from weights; both stay in L1."""
    b = GraphBuilder("kept")
    x, w = b.input("x", (1, 1, 128, 1024)), b.parameter("w", (1024, 1024))
    scaled = b.op("ttnn.multiply", w, b.parameter("s", (1024, 1024)), name="scale")
    y = b.op("ttnn.linear", b.op("ttnn.linear", x, w, name="fc0"), scaled, name="fc1")
    result = optimized(b.finish(y), "global")
    assert result.summary.l1_weights_bytes_total == 2 * 1024 * 1024 * 2
    program = ttnn_program(result)
    assert all("DRAM" in str(entry.spec.layout.memory) for entry in program.parameters)
    codes = [expanded(step.code, program.configs) for step in program.parameter_steps]
    moves = [code for code in codes if "L1" in code]
    assert len(moves) == 2
    assert codes[-3:-1] == moves


def test_arrays_are_checked_by_name_and_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    names, _ = module_of(ttnn_program(optimized(small_cnn())), monkeypatch)
    array = types.SimpleNamespace(shape=(1, 1, 1024, 64))
    assert names["make_inputs"](DEVICE, {"images": array})["images"].args[0] is array
    with pytest.raises(ValueError, match=r"no such tensors: image$"):
        names["make_inputs"](DEVICE, {"image": array})
    with pytest.raises(ValueError, match=r"images has shape \(3,\)"):
        names["make_inputs"](DEVICE, {"images": types.SimpleNamespace(shape=(3,))})


@pytest.mark.parametrize("first", [-1, 64])
def test_indices_lie_within_their_table(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX counts negative ones from the end, TTNN takes them for large ones."""
    b = GraphBuilder("table")
    ids = b.input("ids", (1, 32), DType.U32)
    graph = b.finish(b.op("ttnn.embedding", ids, b.parameter("table", (64, 32)), name="rows"))
    names, _ = module_of(ttnn_program(optimized(graph)), monkeypatch)

    with pytest.raises(ValueError, match=rf"ids has indices from .*{first}.*, of a table of 64 rows"):
        names["make_inputs"](DEVICE, {"ids": np.array([[first, *range(31)]])})


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (tuple(float(i) for i in range(96)), DType.BF16),
        (tuple(float(i) for i in range(7)), DType.F32),
        ((2.5,) * 4096, DType.BF16),
        ((1e300, -math.inf, -0.0) * 32, DType.F32),
        (tuple(range(-40, 40)), DType.I32),
        (tuple(range(2**32 - 50, 2**32)), DType.U32),
    ],
)
def test_constants_are_embedded(data: tuple[float, ...], dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder("constants")
    c = b.constant("c", (1, len(data)), data, dtype)
    y = b.op("ttnn.add", b.input("x", (1, len(data)), dtype), c)
    names, _ = module_of(ttnn_program(optimized(b.finish(y), "dram")), monkeypatch)
    wide = (1e300, -math.inf, -0.0) == data[:3]
    wanted = [struct.unpack("<f", struct.pack("<f", math.inf if v == 1e300 else v))[0] for v in data] if wide else data
    assert [*map(repr, names["CONSTANTS"]["c"])] == [*map(repr, wanted)]
    assert list(names["make_parameters"](DEVICE, placeholders=True)["c"].args[0]) == names["CONSTANTS"]["c"]


def test_an_op_that_ttnn_lacks_runs_in_a_function_of_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "fixtures" / "graphs" / "opaque.json"
    names, recorder = module_of(ttnn_program(optimize_file(path, Options(allow_host_ops=True))), monkeypatch)
    seen: list[Any] = []

    def non_zero(name: str, operands: list[Any], attributes: dict[str, Any], results: list[Any]) -> list[Any]:
        seen.append((name, len(operands), [shape for shape, _, _ in results]))
        return [recorder.Tensor() for _ in results]

    names["HOST_OPS"]["onnx.NonZero"] = non_zero
    names["run"](
        DEVICE,
        names["make_inputs"](DEVICE, placeholders=True),
        names["make_parameters"](DEVICE, placeholders=True),
    )
    assert [(name, count) for name, count, _ in seen] == [("onnx.NonZero", 1)]


def test_a_host_op_gets_none_where_an_operand_or_a_result_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder("recurrent")
    x, state = b.input("x", (1, 5, 32)), b.input("state", (1, 1, 32))
    y = b.op("ttnn.add", x, state, name="lstm")
    graph = b.finish(b.op("ttnn.relu", y))
    add, absent = graph.op("lstm"), {ABSENT_OPERANDS: (1, 2), ABSENT_RESULTS: (0,)}
    graph.replace_op(Op(add.id, "onnx.LSTM", add.inputs, add.outputs, {"hidden_size": 32, **absent}, add.name))
    result = optimize(graph, DeviceSpec.preset("n150"), Options(allow_host_ops=True))
    names, recorder = module_of(ttnn_program(result), monkeypatch)
    seen: list[Any] = []

    def lstm(name: str, operands: list[Any], attributes: dict[str, Any], results: list[Any]) -> list[Any]:
        seen.append(([o is None for o in operands], attributes, [r and r[0] for r in results]))
        return [None, recorder.Tensor()]

    names["HOST_OPS"]["onnx.LSTM"] = lstm
    names["run"](
        "device",
        names["make_inputs"]("device", placeholders=True),
        names["make_parameters"]("device", placeholders=True),
    )
    assert seen == [([False, True, True, False], {"hidden_size": 32}, [None, (1, 5, 32)])]
    names["HOST_OPS"]["onnx.LSTM"] = lambda *_: []
    with pytest.raises(ValueError, match=r"onnx\.LSTM has 2 results, its function in HOST_OPS gave 0"):
        names["run"](
            "device",
            names["make_inputs"]("device", placeholders=True),
            names["make_parameters"]("device", placeholders=True),
        )


def test_placeholders() -> None:
    assert placeholder_text(TensorSpec((2, 32), DType.BFP8_B, DRAM_TILE)) == (
        "ttnn.empty((2, 32), dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device, "
        "memory_config=ttnn.DRAM_MEMORY_CONFIG)"
    )
    host = placeholder_text(TensorSpec((2, 32), DType.BFP8_B, HOST_ROW_MAJOR))
    assert host == "ttnn.zeros((2, 32), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)"


# -- lifetimes -----------------------------------------------------------------------------------------------
def freed_by(step: ProgramStep) -> list[str]:
    return [line.removeprefix("ttnn.deallocate(").removesuffix(")") for line in step.frees]


def check_lifetimes(result: OptimizedGraph, program: TTNNProgram) -> None:
    """No name is read before it is defined or after its buffer is freed; nothing is freed twice or forgotten."""
    defined: set[str] = {*GIVEN, *program.configs}
    buffer_of: dict[str, str] = {}
    freed: set[str] = set()
    for step in steps_of(program):
        targets = {name for name, _ in step.results}
        for node in ast.walk(ast.parse(step.code)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Name) and node.id not in targets:
                assert node.id in defined, f"{node.id} is read before it is defined"
                assert buffer_of.get(node.id, node.id) not in freed, f"{node.id} is read after it was freed"
        record = None if step.op is None else result.records[step.op]
        shared = None if record is None else 0 if record.role is Role.VIEW else overwritten_operand(record.config)
        if shared is not None and step.op is not None:
            variables = {value: name for s in steps_of(program) for name, value in s.results}
            op = result.graph.op(step.op)
            source = variables[op.inputs[shared]]
            buffer_of[step.results[0][0]] = buffer_of.get(source, source)
        for name in freed_by(step):
            buffer = buffer_of.get(name, name)
            assert name in defined
            assert buffer not in freed, f"{name} is freed twice"
            freed.add(buffer)
    kept = {*program.outputs, *(name for s in program.parameter_steps for name, _ in s.results)}
    for name in program.outputs:
        assert buffer_of.get(name, name) not in freed
    inputs = {name for s in program.run_steps if s.op is None for name, _ in s.results}
    safe = {buffer_of.get(name, name) for name in kept | inputs}
    frees_itself = {
        name
        for step in program.run_steps
        if step.op is not None and "deallocate_activation=True" in step.code
        for name in [step.code.partition("input_tensor=")[2].partition(",")[0]]
    }
    for step in program.run_steps:
        for name, value in step.results if step.op is not None else ():
            buffer = buffer_of.get(name, name)
            ends = buffer in freed or buffer in safe or result.layouts[value].is_host or name in frees_itself
            assert ends, f"{name} is never freed"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """DAGs with views, several results, unused results, weights in two forms, inputs returned as they are."""
    b = GraphBuilder(draw(st.text(max_size=8)))
    x = b.input("x", (1, 1, 1024, 64))
    values = [x]
    kinds = ["relu", "add", "view", "split", "linear", "conv", "permute", "topk", "weights", "concat", "scalar"]
    for i in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(kinds))
        a = draw(st.sampled_from(values[-3:]))
        name = draw(st.sampled_from(["", f"op/{i}", "class", "ttnn", "run", "same", "9" * 70, 'a"b\n\\c', "é"]))
        if kind == "relu":
            values.append(b.op("ttnn.relu", a, name=name))
        elif kind == "add":
            values.append(b.op("ttnn.add", a, draw(st.sampled_from(values)), name=name))
        elif kind == "scalar":
            values.append(b.op("ttnn.multiply", a, scalar=draw(st.floats(width=16, allow_nan=False)), name=name))
        elif kind == "view":
            seen = b.op("ttnn.reshape", a, shape=(1, 32, 32, 64))
            values.append(b.op("ttnn.reshape", seen, shape=(1, 1, 1024, 64), name=name))
        elif kind == "split":
            halves = b.ops("ttnn.split", a, sizes=(512, 512), dim=2, name=name)
            values.append(b.op("ttnn.concat", halves[0], halves[draw(st.integers(0, 1))], dim=2))
        elif kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (64, 64)), name=name))
        elif kind == "conv":
            weight = b.parameter(f"c{i}", (64, 64, 3, 3))
            values.append(b.op("ttnn.conv2d", a, weight, name=name, in_channels=64, out_channels=64, **CONV))
        elif kind == "permute":
            turned = b.op("ttnn.permute", a, dims=(0, 1, 3, 2))
            values.append(b.op("ttnn.permute", turned, dims=(0, 1, 3, 2), name=name))
        elif kind == "topk":
            values.append(b.ops("ttnn.topk", a, k=64, name=name)[0])
        elif kind == "weights":
            raw = b.parameter(f"raw{i}", (1, 1, 64, 64))
            flat = b.op("ttnn.reshape", b.op("ttnn.exp", raw), shape=(1, 1, 64, 64))
            values.append(b.op("ttnn.matmul", b.op("ttnn.matmul", a, flat), raw, name=name))
        else:
            values.append(b.op("ttnn.slice", b.op("ttnn.concat", a, a, dim=3), begins=(0,) * 4, ends=(1, 1, 1024, 64)))
    outputs = [values[-1], draw(st.sampled_from(values)), values[-1]]
    return b.finish(*outputs[: draw(st.integers(1, 3))])


@settings(max_examples=examples(40))
@given(graph=graphs(), policy=st.sampled_from(["dram", "dfsharding", "global"]))
@pytest.mark.slow
def test_any_program_compiles_and_frees_every_value_once(graph: Graph, policy: str) -> None:
    result = optimized(graph, policy)
    program = ttnn_program(result)
    text = render(program)
    compile(text, "model_ttnn.py", "exec")
    check_lifetimes(result, program)
    assert text == render(ttnn_program(result))


def test_views_are_freed_with_their_source_and_unused_results_at_once() -> None:
    b = GraphBuilder("views")
    x = b.op("ttnn.relu", b.input("x", (1, 1, 64, 64)), name="a")
    view = b.op("ttnn.reshape", x, shape=(64, 64), name="v")
    values, _ = b.ops("ttnn.topk", view, k=32, name="best")
    y = b.op("ttnn.exp", values, name="y")
    program = ttnn_program(optimized(b.finish(y), "dram"))
    assert {step.op: freed_by(step) for step in program.run_steps if step.op} == {
        "a": [],
        "v": [],
        "best": ["a", "best_1"],
        "y": ["best_0"],
    }


# -- weights ---------------------------------------------------------------------------------------------------
N150 = DeviceSpec.preset("n150")
BLOCK = sharded_layout((1, 1, 1024, 64), TensorMemoryLayout.BLOCK_SHARDED, (8, 2), DeviceSpec.preset("n150"))
UNEVEN = sharded_layout((1, 1, 1024, 96), TensorMemoryLayout.BLOCK_SHARDED, (8, 2), DeviceSpec.preset("n150"))


@pytest.mark.parametrize(
    ("op", "layout", "channels", "kernel", "config", "prepared"),
    [
        ("ttnn.conv2d", DRAM_TILE, 64, 3, None, (True, True)),
        ("ttnn.conv2d", DRAM_TILE, 64, 3, Conv2dConfig(weights_dtype="bfp8_b"), (False, False)),
        ("ttnn.conv2d", DRAM_TILE, 64, 3, Conv2dConfig(weights_dtype="bfp8_b", slice="l1"), (True, False)),
        ("ttnn.conv2d", BLOCK, 64, 1, Conv2dConfig(slice="l1"), (True, True)),
        ("ttnn.conv2d", UNEVEN, 96, 1, Conv2dConfig(slice="l1", shard_layout="block_sharded"), (True, True)),
        ("ttnn.conv2d", UNEVEN, 96, 3, Conv2dConfig(slice="l1"), (True, True)),
        ("ttnn.conv_transpose2d", DRAM_TILE, 64, 2, None, (False, False)),
        ("ttnn.conv_transpose2d", BLOCK, 64, 2, None, (True, True)),
    ],
)
def test_weights_are_prepared_where_that_gives_what_the_conv_makes(
    op: str,
    layout: TensorLayout,
    channels: int,
    kernel: int,
    config: Conv2dConfig | None,
    prepared: tuple[bool, bool],
) -> None:
    attrs = {**CONV, "kernel_size": (kernel, kernel), "padding": (kernel // 3,) * 4}
    attrs.update(in_channels=channels, out_channels=32, groups=1, activation=None)
    shapes = ((1, 1, 1024, channels), (32, channels, kernel, kernel), (1, 1, 1, 32))
    layouts = (layout, HOST_ROW_MAJOR, HOST_ROW_MAJOR)
    inputs = tuple(TensorSpec(s, DType.BF16, at) for s, at in zip(shapes, layouts, strict=True))
    query = OpQuery(op, inputs, tuple(sorted(attrs.items())), config)
    node = Op("conv", op, ("x", "w", "b"), ("y",))
    texts = [prepared_text(node, query, index, "raw", N150, 32768) for index in (1, 2)]
    assert tuple(text is not None for text in texts) == prepared
    for text in texts:
        assert text is None or "conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bf" in text
    assert prepared_text(node, query, 0, "raw", N150, 32768) is None


def test_group_norm_weights_become_rows_of_a_tile() -> None:
    node = Op("norm", "ttnn.group_norm", ("x", "w"), ("y",))
    x = TensorSpec((1, 1, 64, 320), DType.BF16, DRAM_TILE)

    def text(shape: tuple[int, ...], layout: TensorLayout) -> str | None:
        query = OpQuery(node.op, (x, TensorSpec(shape, DType.BF16, layout)), (("num_groups", 32),))
        return prepared_text(node, query, 1, "w", N150, 32768)

    assert text((320,), DRAM_TILE) == "ttnn.reshape(ttnn.to_layout(w, ttnn.ROW_MAJOR_LAYOUT), (1, 1, 10, 32))"
    assert text((320,), DRAM_ROW_MAJOR) == "ttnn.reshape(w, (1, 1, 10, 32))"
    assert text((1, 1, 10, 32), DRAM_ROW_MAJOR) is None


# -- names, layout, size -------------------------------------------------------------------------------------
@given(st.lists(st.text(max_size=90), max_size=30))
def test_variables_are_valid_unique_and_not_the_modules_own(texts: list[str]) -> None:
    names = Names()
    made = [names.fresh(text) for text in texts]
    assert len(set(made)) == len(made)
    assert all(name.isidentifier() and name not in RESERVED for name in made)
    assert all(len(resembling(text)) <= LONGEST for text in texts)


def test_variables_resemble_the_model() -> None:
    assert resembling("/m/layer.1/conv/Conv") == "m_layer_1_conv_Conv"
    assert resembling("onnx::Conv_497") == "onnx_Conv_497"
    assert resembling("1495") == "v_1495"
    names = Names()
    assert [names.fresh(n) for n in ("run", "a", "a", "A")] == ["run_1", "a", "a_1", "A"]


@given(st.text(max_size=200))
def test_comments_stay_on_their_line(text: str) -> None:
    line = comment(text, 1)
    assert len(line.splitlines()) == 1
    assert len(line) <= LINE_LENGTH
    assert ast.parse(f"if 1:\n{line}\n    pass\n")


def test_long_calls_have_one_argument_per_line() -> None:
    arguments = ", ".join(f'name_{i}="a, (b{i}"' for i in range(9))
    assert laid_out(f"x = f({arguments})", 1).split("\n") == [
        "    x = f(",
        *(f'        name_{i}="a, (b{i}",' for i in range(9)),
        "    )",
    ]


def test_names_of_files_cannot_carry_code(monkeypatch: pytest.MonkeyPatch) -> None:
    evil = '"""\nraise SystemExit\n# \\'
    b = GraphBuilder(evil)
    x = b.input(evil + "in", (1, 1, 64, 64))
    y = b.op("ttnn.add", x, b.parameter(evil + "w", (1, 1, 64, 64)), name=evil)
    program = ttnn_program(optimized(b.finish(y)))
    names, _ = module_of(program, monkeypatch)
    assert names["INPUTS"][0]["name"] == evil + "in"
    assert (
        len(
            names["run"](
                DEVICE,
                names["make_inputs"](DEVICE, placeholders=True),
                names["make_parameters"](DEVICE, placeholders=True),
            )
        )
        == 1
    )


HOSTILE = (
    "", "0", "__x__", "a\nb", '"""\nraise SystemExit\n# \\', "'", "\\", "{x}", "%s", "\u2028import os",
    "\x0cimport os", "\x00",
    "\ud800", "\ufb01", "\uff41", "class", "ttnn", "device", "print", "run", "tensors", "make_inputs", "match",
    "x" * 10_000,
)  # fmt: skip


def skeleton(names: list[str]) -> str:
    """The syntax tree of a program, without what its variables and strings are."""
    model, value, weight, op = names
    b = GraphBuilder(model)
    x = b.input(f"{value}", (1, 1, 64, 64))
    y = b.op("ttnn.add", x, b.parameter(f"w{weight}", (1, 1, 64, 64)), name=op)
    tree = ast.parse(render(ttnn_program(optimized(b.finish(y)))))
    known: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = str(known.setdefault(node.id, len(known)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


@pytest.mark.parametrize("place", range(4), ids=["model", "input", "weight", "op"])
@pytest.mark.parametrize("name", HOSTILE, ids=lambda word: ascii(word[:20]))
def test_hostile_names_give_the_program_of_tame_ones(name: str, place: int) -> None:
    names = ["model", "x", "y", "sum"]
    names[place] = name
    assert skeleton(names) == skeleton(["model", "x", "y", "sum"])


@pytest.mark.slow
def test_thousands_of_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    b = GraphBuilder("long")
    x = b.input("x", (1, 1, 32, 32))
    for _ in range(5000):
        x = b.op("ttnn.relu", x)
    program = ttnn_program(optimized(b.finish(x), "dram"))
    names, recorder = module_of(program, monkeypatch)
    names["run"](
        DEVICE,
        names["make_inputs"](DEVICE, placeholders=True),
        names["make_parameters"](DEVICE, placeholders=True),
    )
    assert recorder.calls.count("relu") == 5000
    assert recorder.calls.count("deallocate") == 4999


def test_tt_metal_runs_the_program(needs_ttnn: None) -> None:
    """Statement by statement on a mock device: every result is where the plan says."""
    from optimizer.opmodel.registry import create

    result = optimized(small_cnn())
    program = ttnn_program(result)
    backend: Any = create("ttmetal", DeviceSpec.preset("n150"))
    with backend.program(program.prelude) as session:
        for step in steps_of(program):
            answer = session.step(step.code, [name for name, _ in step.results])
            assert answer.valid, answer.error
            for (name, value_id), real in zip(step.results, answer.results, strict=True):
                value = result.graph.value(value_id)
                stated = (value.shape, value.dtype, result.layouts[value_id])
                assert (real.shape, real.dtype, real.layout) == stated, name
            for line in step.frees:
                assert session.step(line).valid
