"""Where the time beyond the limit goes: all of it, once, under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.export.annotated_json import dumps
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.opdef import CostClass
from optimizer.limit.losses import Spending, _losses, _rounded
from optimizer.limit.per_op import OpLimit
from optimizer.opmodel.base import Bound, CostPart
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph, Role
from optimizer.result.summary import LossKind
from optimizer.wording.limits import SHOWN_LOSSES, WORDS, limit_facts
from tests import plans
from tests.samples import examples, sampled

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = sorted((ROOT / "fixtures" / "graphs").glob("*.json"))
NETWORKS = sorted((ROOT / "fixtures" / "onnx").glob("*.onnx"))
N150 = DeviceSpec.preset("n150")
POLICIES = ("dram", "dfsharding", "dfsharding2", "global")


def planned(path: Path, **options: object) -> OptimizedGraph:
    return plans.planned_file(path, Options.from_mapping({"allow_host_ops": True, **options}))


def holds(result: OptimizedGraph) -> None:
    """No op is faster than its limit, and the losses are the rest of the time to the nanosecond."""
    summary = result.summary
    predicted = {op: record.predicted for op, record in result.records.items() if record.predicted is not None}
    assert [op for op, p in predicted.items() if p.limit_ns > p.time_ns] == []
    assert summary.limit.limit_ns == max(summary.limit.dram_ns, summary.limit.compute_ns) <= summary.predicted_time_ns
    assert summary.limit.limit_ns + sum(loss.ns for loss in summary.limit.losses) == summary.predicted_time_ns
    assert all(loss.ns > 0 for loss in summary.limit.losses)
    sizes = [loss.ns for loss in summary.limit.losses]
    assert sizes == sorted(sizes, reverse=True)
    assert summary.limit.compulsory_dram_bytes == sum(p.compulsory_dram_bytes for p in predicted.values())
    assert summary.limit.flops == sum(p.flops for p in predicted.values())


@settings(max_examples=examples(60))
@given(
    st.sampled_from(GRAPHS),
    st.sampled_from(POLICIES),
    st.sampled_from(["n150", "p100", "p150"]),
    st.sampled_from([None, "bfp8_b", "bfp4_b"]),
    st.sampled_from([None, "lofi", "hifi4"]),
)
@pytest.mark.slow
def test_no_plan_is_faster_than_its_limit(path, policy, board, weights, fidelity) -> None:
    given_options = {"policy": policy, "board": board, "weights_dtype": weights, "math_fidelity": fidelity}
    holds(planned(path, **{k: v for k, v in given_options.items() if v is not None}))


QUICK, SLOW = ([p for p in NETWORKS if p.stem.startswith(names)] for names in (
    ("dlrm", "bert_base"), ("resnet50_b1", "mobilenetv2", "llama32_1b_2l")))  # fmt: skip


@pytest.mark.parametrize("path", sampled(NETWORKS, QUICK, SLOW), ids=lambda path: path.stem)
@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.slow
def test_no_network_is_faster_than_its_limit(path: Path, board: str) -> None:
    holds(planned(path, policy="dfsharding", board=board))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
@pytest.mark.slow
def test_the_limit_is_that_of_the_model_whatever_the_policy(path: Path) -> None:
    found = {
        (limit.dram_ns, limit.compute_ns, limit.compulsory_dram_bytes, limit.flops)
        for limit in (planned(path, policy=policy, weights_in_l1=False).summary.limit for policy in POLICIES)
    }
    assert len(found) == 1


@pytest.mark.slow
def test_fused_kernels_lose_their_own_time() -> None:
    result = planned(ROOT / "fixtures" / "graphs" / "fork.json", fuse_kernels=True)
    limit, summary = result.summary.limit, result.summary
    assert limit.limit_ns + sum(loss.ns for loss in limit.losses) == summary.predicted_time_ns
    assert LossKind.KERNELS in {loss.kind for loss in limit.losses}


def test_two_runs_state_the_same() -> None:
    b = GraphBuilder("one")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 256, 256)), name="act"))
    first, second = (dumps(optimize(graph, N150, Options(policy="dram"))).partition('"timings"')[0] for _ in range(2))
    assert '"of_limit"' in first
    assert first == second


# -- one op ---------------------------------------------------------------------------------------------------
LIMIT = OpLimit(dram_bytes=267_000, flops=1, dram_ns=1000.0, compute_ns=400.0, padded_ns=600.0)


def spending(role: Role = Role.COMPUTE, cost_class: CostClass | None = CostClass.MATMUL, **fields) -> Spending:
    part = CostPart("matmul", 3000.0, 500.0, ((Bound.DRAM, 1800.0), (Bound.COMPUTE, 1400.0)), 0.0)
    given_fields = {"time_ns": 3000, "limit": LIMIT, "cores": 32, "excess_bytes": 26_700, "parts": (part,), **fields}
    return Spending(role=role, cost_class=cost_class, **given_fields)


def test_a_product_loses_by_what_its_terms_say() -> None:
    """3,000 ns: start 500, DRAM 1,800 of which 1,000 is the limit, and 700 of arithmetic that DRAM does not hide."""
    found = {kind: ns for kind, ns in _losses(spending(), N150).items() if ns}
    assert found == pytest.approx({
        LossKind.STARTS: 500,
        LossKind.DRAM_TRAFFIC: 100,
        LossKind.DRAM_RATE: 700,
        LossKind.SERIAL: 400,
        LossKind.PADDING: 200,
        LossKind.IDLE_CORES: 100,
    })  # fmt: skip


def test_the_whole_time_of_a_copy_is_its_own() -> None:
    found = {kind: ns for kind, ns in _losses(spending(Role.LOAD, CostClass.LAYOUT), N150).items() if ns}
    assert found == pytest.approx({LossKind.COPIES: 2000})


def test_ops_without_products_are_named_by_their_class() -> None:
    plain = spending(cost_class=CostClass.ELTWISE, limit=OpLimit(), excess_bytes=0)
    assert {k: ns for k, ns in _losses(plain, N150).items() if ns} == pytest.approx(
        {LossKind.STARTS: 500, LossKind.ELEMENTWISE: 2500}
    )


def test_a_kernel_of_ours_or_a_backend_without_programs_has_one_name() -> None:
    for cost_class, kind in ((None, LossKind.KERNELS), (CostClass.NORM, LossKind.NORMS)):
        bare = spending(cost_class=cost_class, parts=(), limit=OpLimit())
        assert {k: ns for k, ns in _losses(bare, N150).items() if ns} == {kind: 3000.0}


def test_an_op_faster_than_its_limit_shows_as_less_than_nothing() -> None:
    assert sum(_losses(spending(time_ns=300), N150).values()) == pytest.approx(-700)


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.sampled_from(list(Bound)), st.floats(0, 1e6)), max_size=4, unique_by=lambda t: t[0]),
    st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 1), st.sampled_from(list(Role)),
    st.sampled_from([*CostClass, None]), st.integers(1, 64), st.integers(0, 10**9), st.booleans(),
    st.sampled_from(["matmul", "conv", "halo", "reshard", "eltwise"]),
)  # fmt: skip
def test_the_losses_of_an_op_are_its_time_beyond_its_limit(
    terms, start, tail, share, role, cost_class, cores, excess, writes, name
) -> None:
    spent = sorted((ns for _, ns in terms), reverse=True)
    whole = start + tail + (spent[0] + share * sum(spent[1:]) if spent else 0.0)
    time_ns = max(1, round(whole))
    part = CostPart(name, whole, start, tuple(terms), tail)
    limit = OpLimit(1, 1, 0.2 * time_ns, 0.3 * time_ns, 0.5 * time_ns)
    one = Spending(time_ns, limit, role, cost_class, cores, excess, (part,), writes)
    found = _losses(one, N150)
    assert sum(found.values()) == pytest.approx(time_ns - limit.ns)
    assert min(found.values()) >= -1e-6 * time_ns


@settings(max_examples=examples(200))
@given(st.dictionaries(st.sampled_from(list(LossKind)), st.floats(0, 1e9), min_size=1))
def test_rounding_keeps_the_sum(lost) -> None:
    whole = round(sum(lost[name] for name in sorted(lost)))
    found = _rounded(lost, whole)
    assert sum(loss.ns for loss in found) == whole
    assert all(abs(loss.ns - lost[loss.kind]) <= 2 for loss in found)


# -- in words -------------------------------------------------------------------------------------------------
def test_every_loss_has_words() -> None:
    assert WORDS.keys() == {kind.value for kind in LossKind}


def test_the_summary_names_the_largest_losses() -> None:
    summary = planned(GRAPHS[0], policy="dram").summary.to_json()
    (name, text), (lost, reasons) = limit_facts(summary)
    assert (name, lost) == ("of limit", "lost by")
    assert str(text).startswith(f"{100 * summary['limit']['of_limit']:.1f} %")
    assert str(reasons).count(" %") == SHOWN_LOSSES
    assert limit_facts({}) == []
