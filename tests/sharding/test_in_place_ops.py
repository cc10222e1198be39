"""Policy global writes results into operands that nothing else reads: L1 for one tensor less, and the same values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from optimizer.answers.checking import check_record
from optimizer.errors import TtoptError
from optimizer.export.reader import read_result
from optimizer.export.registry import emit
from optimizer.export.ttnn_py import ttnn_program
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, Op
from optimizer.l1.rules import Moment, RoomRule
from optimizer.l1.run import Run
from optimizer.layouts.op_config import InPlaceConfig, LayerNormShardedMultiCoreProgramConfig, overwritten_operand
from optimizer.layouts.tiling import l1_bytes_per_core
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.plan_program import bank_of, plan_program
from optimizer.sharding.whole_graph.global_policy import WORTH_AN_ORDER
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.elimination import eliminate
from tests.samples import examples
from tests.sharding.whole_graph.test_global_policy import forks, problem_of, run

pytestmark = pytest.mark.usefixtures("remembered_answers")

TIGHT = {"tensor_l1_usage_cap": 0.22, "weights_in_l1": False}
"""Room for two of the tensors of `gated`, not for three."""


def gated(rows: int = 2048, width: int = 2048) -> Graph:
    b = GraphBuilder("gated")
    x = b.input("x", (1, 1, rows, width))
    y = b.op("ttnn.multiply", b.op("ttnn.gelu", x, name="p"), b.op("ttnn.exp", x, name="q"), name="mul")
    return b.finish(b.op("ttnn.add", b.op("ttnn.silu", y, name="act"), x, name="sum"))


def in_place(result: OptimizedGraph) -> dict[str, str]:
    """Op -> the value that it writes its result into."""
    found = {op.id: (op, overwritten_operand(result.records[op.id].config)) for op in result.graph.ops()}
    return {op_id: op.inputs[k] for op_id, (op, k) in found.items() if k is not None}


def test_where_l1_has_no_room_for_the_result_the_plan_is_faster() -> None:
    inside, apart = run(gated(), **TIGHT), run(gated(), in_place_ops=False, **TIGHT)
    assert inside.summary.predicted_time_ns < 0.95 * apart.summary.predicted_time_ns
    assert inside.summary.lower_bound_ns < apart.summary.lower_bound_ns
    assert set(in_place(inside)) == {"mul", "act"}
    assert in_place(apart) == {}


def test_l1_holds_one_tensor_less() -> None:
    """Both operands and the result of `mul` are in L1, which has room for two of them."""
    result = run(gated(), **TIGHT)
    mul = result.graph.op("mul")
    values = [(result.graph.value(v), result.layouts[v]) for v in (*mul.inputs, *mul.outputs)]
    assert all(layout.is_l1 for _, layout in values)
    sizes = [l1_bytes_per_core(v.shape, v.dtype, layout, result.device) for v, layout in values]
    assert result.summary.l1_peak_bytes <= result.summary.l1_limit_bytes < sum(sizes)


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "dfsharding2"])
def test_other_policies_have_nothing_in_place(policy: str) -> None:
    assert in_place(run(gated(), policy, **TIGHT)) == {}


@pytest.mark.slow
def test_with_kernels_of_our_own_nothing_is_in_place() -> None:
    assert in_place(run(gated(), fuse_kernels=True, **TIGHT)) == {}


def test_a_sharded_norm_is_in_place() -> None:
    b = GraphBuilder("norm")
    x = b.op("ttnn.linear", b.input("x", (1, 1, 2048, 1024)), b.parameter("w0", (1024, 1024)), name="before")
    y = b.op("ttnn.layer_norm", x, b.parameter("g", (1024,)), b.parameter("c", (1024,)), name="norm")
    result = run(b.finish(b.op("ttnn.linear", y, b.parameter("w1", (1024, 1024)), name="after")))
    config = result.records["norm"].config
    assert isinstance(config, LayerNormShardedMultiCoreProgramConfig)
    assert config.inplace
    assert in_place(result) == {"norm": result.graph.op("norm").inputs[0]}


def test_values_that_are_read_again_keep_their_buffer() -> None:
    b = GraphBuilder("fork")
    x = b.op("ttnn.exp", b.input("x", (1, 1, 512, 512)), name="x2")
    y = b.op("ttnn.gelu", x, name="y")
    result = run(b.finish(b.op("ttnn.multiply", y, x, name="z"), b.op("ttnn.silu", x, name="w")))
    assert result.graph.op("x2").outputs[0] not in in_place(result).values()


def test_the_plan_tells_how_long_a_buffer_is_taken() -> None:
    """The operand's reservation lasts until the result that took its buffer is read for the last time."""
    result = run(gated(), **TIGHT)
    held = {r.value: r for r in result.reservations}
    for op_id, source in in_place(result).items():
        target = result.graph.op(op_id).outputs[0]
        assert held[source].end >= held[target].end


def test_the_document_and_the_program_say_so(tmp_path: Path) -> None:
    result = run(gated(), **TIGHT)
    again = read_result(emit(result, "json", tmp_path))
    assert again.records["act"].config == InPlaceConfig(0)
    program = ttnn_program(result)
    step = next(step for step in program.run_steps if step.op == "act")
    source = next(name for s in program.run_steps for name, value in s.results if value == in_place(result)["act"])
    assert f"output_tensor={source}" in step.code.replace("\n", "")
    assert "in place" in (step.comment or "")
    freed = [line for s in program.run_steps for line in s.frees]
    assert len(freed) == len(set(freed))


def test_tt_metal_runs_the_program_with_the_predicted_peaks(needs_ttnn: None) -> None:
    b = GraphBuilder("all")
    x = b.input("x", (1, 1, 2048, 1024))
    y = b.op("ttnn.linear", x, b.parameter("w0", (1024, 1024)), name="up")
    y = b.op("ttnn.layer_norm", b.op("ttnn.gelu", y, name="act"), b.parameter("g", (1024,)), name="norm")
    y = b.op("ttnn.linear", y, b.parameter("w1", (1024, 1024)), name="down")
    result = run(b.finish(b.op("ttnn.add", b.op("ttnn.multiply", y, y, name="square"), x, name="sum")))
    assert "act" in in_place(result)
    for checked in (result, run(gated(), **TIGHT)):
        record = check_record(checked, "ttmetal")
        assert (record["ok"], record["errors"], record["verify_errors"]) == (True, [], [])
        assert record["l1"]["exact"] == record["l1"]["steps"]


# -- random graphs -------------------------------------------------------------------------------------------
FUNCTIONS: dict[str, Callable[..., NDArray[np.float64]]] = {
    "ttnn.relu": lambda x: np.maximum(x, 0),
    "ttnn.neg": lambda x: -x,
    "ttnn.add": lambda x, y: x + y,
    "ttnn.subtract": lambda x, y: x - y,
}


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """DAGs of element-wise ops and views, in which any value may be read again, or returned."""
    b = GraphBuilder("random")
    shape = (1, 1, 32 * draw(st.integers(2, 16)), 64)
    values = [b.input("x", shape)]
    for _ in range(draw(st.integers(3, 9))):
        kind = draw(st.sampled_from(["relu", "neg", "add", "subtract", "view"]))
        a = draw(st.sampled_from(values[-3:]))
        if kind == "view":
            flat = b.op("ttnn.reshape", a, shape=shape[1:])
            values.append(b.op("ttnn.reshape", flat, shape=shape))
        elif kind in ("relu", "neg"):
            values.append(b.op(f"ttnn.{kind}", a))
        else:
            values.append(b.op(f"ttnn.{kind}", a, draw(st.sampled_from(values))))
    return b.finish(*dict.fromkeys([values[-1], draw(st.sampled_from(values[1:]))]))


def computed(op: Op, operands: list[NDArray[np.float64]], shape: tuple[int, ...]) -> NDArray[np.float64]:
    return operands[0].reshape(shape) if op.op not in FUNCTIONS else FUNCTIONS[op.op](*operands)


def meant(graph: Graph, x: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """What a graph says, every value by itself."""
    values = {graph.inputs[0]: x}
    for op in graph.ops():
        values[op.outputs[0]] = computed(op, [values[v] for v in op.inputs], graph.value(op.outputs[0]).shape)
    return [values[v] for v in graph.outputs]


def with_buffers(result: OptimizedGraph, x: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """What a result computes when views and ops in place share their operand's memory."""
    memory = {result.graph.inputs[0]: x.copy()}
    written = in_place(result)
    for op in result.graph.ops():
        shape = result.graph.value(op.outputs[0]).shape
        made = computed(op, [memory[v] for v in op.inputs], shape)
        if op.id in written:
            memory[written[op.id]][...] = made
            made = memory[written[op.id]]
        memory[op.outputs[0]] = made if op.id in written or result.records[op.id].role is Role.VIEW else made.copy()
    return [memory[v] for v in result.graph.outputs]


@settings(max_examples=examples(30))
@given(graph=graphs(), cap=st.sampled_from([0.95, 0.02, 0.012]))
def test_any_plan_computes_what_the_graph_says(graph: Graph, cap: float) -> None:
    result = run(graph, tensor_l1_usage_cap=cap)
    x = np.random.default_rng(0).normal(size=graph.value(graph.inputs[0]).shape)
    for found, wanted in zip(with_buffers(result, x), meant(graph, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@settings(max_examples=examples(15))
@given(graph=graphs())
def test_the_problem_never_charges_more_than_the_program_takes(graph: Graph) -> None:
    """Otherwise it would forbid plans that run, and its bound would be none."""
    problem = problem_of(graph)
    dram = DramPolicy().run(problem)
    model = GlobalProblem(problem, dram.schedule, [dram.decisions])
    chosen = eliminate(model.integers).chosen
    assert chosen is not None
    load, decisions = model.integers.loads(chosen), model.decisions(chosen, {})
    peaks = program_peaks(problem, model, decisions)
    for t, op_id in enumerate(model.schedule):
        assert load[2 * t + 1] <= peaks[op_id]


def program_peaks(problem: PolicyInput, model: GlobalProblem, decisions: Mapping[str, OpDecision]) -> dict[str, int]:
    """L1 per core while each op runs, by the steps of the program and their buffers."""
    peaks: dict[str, int] = {}

    def note(moment: Moment) -> int:
        if not moment.step.is_copy:
            peaks[moment.step.op_id] = moment.resident_bytes + moment.step.peak_bytes
        return 0

    program = plan_program(problem.pricer, model.schedule, decisions)
    run_ = Run(bank_of(problem.pricer), rules=(RoomRule("noted", "", "", note),))
    for at, row in enumerate(program.rows):
        run_.position(at, row, lambda v: program.last_reads.get(v, 0))
    return peaks


@pytest.mark.slow
def test_answers_come_from_the_backend_that_was_asked(needs_ttnn: None) -> None:
    """Policy global on tt-metal's own answers has the same ops in place."""
    few = {"max_legal_layouts": 8, **TIGHT}
    found = in_place(run(gated(), **few))
    assert found
    assert in_place(run(gated(), opmodel="ttmetal", **few)) == found


@settings(max_examples=examples(10))
@given(graph=forks(), cap=st.sampled_from([0.3, 0.1, 0.03]))
def test_what_may_be_in_place_costs_no_time(graph: Graph, cap: float) -> None:
    """Plans with and without it are both searched for where a gap is left."""
    try:
        apart = run(graph, tensor_l1_usage_cap=cap, in_place_ops=False)
    except TtoptError:  # an op does not run within so little
        return
    inside = run(graph, tensor_l1_usage_cap=cap)
    assert inside.summary.predicted_time_ns * (1 - WORTH_AN_ORDER) <= apart.summary.predicted_time_ns
    assert inside.summary.lower_bound_ns <= apart.summary.predicted_time_ns
