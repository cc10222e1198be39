"""What a document states of itself is compared with what is recomputed; what is not is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.answers.checking import check_record
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, LimitError
from optimizer.export import stored
from optimizer.export.annotated_json import dumps
from optimizer.export.reader import read_result
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph
from optimizer.verify import RULES
from optimizer.verify.figures import same
from tests import plans

N150 = DeviceSpec.preset("n150")
GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"


def planned(device: DeviceSpec = N150, **options: object) -> OptimizedGraph:
    b = GraphBuilder("pair")
    x = b.input("x", (1, 1, 256, 512))
    h = b.op("ttnn.linear", x, b.parameter("w", (512, 512)), name="fc")
    return plans.planned(b.finish(b.op("ttnn.relu", h, name="act")), device, Options.from_mapping(options))


def written(result: OptimizedGraph, folder: Path) -> Path:
    path = folder / "graph.json"
    path.write_text(dumps(result), encoding="utf-8")
    return path


def test_rules_have_a_name_and_a_sentence() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.says.endswith(".") for rule in RULES)


def test_a_result_is_read_back_with_all_that_it_states(tmp_path: Path) -> None:
    result = planned()
    back = read_result(written(result, tmp_path))
    assert {**back.to_json(), "timings": None} == {**json.loads(dumps(result)), "timings": None}


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "dfsharding2", "global"])
def test_results_of_every_policy_state_what_is_so(policy: str, tmp_path: Path) -> None:
    assert check_record(read_result(written(planned(policy=policy), tmp_path)))["errors"] == []


def test_a_result_in_memory_is_checked_alike() -> None:
    result = planned()
    assert check_record(result)["ok"]
    result.priced = result.summary.model_copy(update={"predicted_time_ns": result.summary.predicted_time_ns + 1})
    assert [error["op"] for error in check_record(result)["errors"]] == ["summary", "summary", "summary"]


def test_a_limit_that_is_stated_wrong_is_seen() -> None:
    result = planned()
    limit = result.summary.limit.model_copy(update={"losses": result.summary.limit.losses[1:]})
    result.priced = result.summary.model_copy(update={"limit": limit})
    (error,) = check_record(result)["errors"]
    assert error["op"] == "summary"
    assert error["message"].startswith("states limit")


def test_what_is_not_stated_is_not_compared() -> None:
    result = planned()
    result.priced = None
    result.records = {op: replace(record, predicted=None) for op, record in result.records.items()}
    record = check_record(result)
    assert record["ok"]
    assert "the document states no figures" in record["not_checked"]


def test_another_backend_compares_no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    result = planned()
    bound, time_ns = result.summary.lower_bound_ns, result.summary.predicted_time_ns + 1
    result.options = replace(result.options, opmodel="ttmetal")
    result.priced = result.summary.model_copy(
        update={"predicted_time_ns": time_ns, "gap": 1 - bound / time_ns, "status": "feasible", "opmodel": "ttmetal"}
    )
    record = check_record(result, "analytical")
    assert record["errors"] == []
    assert "figures: predicted by ttmetal, checked by analytical" in record["not_checked"]


def test_a_board_of_ones_own_is_said_to_be_one() -> None:
    mine = replace(N150, name="mine", clock_mhz=900)
    result = planned(mine)
    assert result.options.board == "mine.json"
    assert check_record(result)["custom_board"] is True
    assert check_record(planned())["custom_board"] is False


def test_the_option_board_is_that_of_the_device() -> None:
    assert planned(DeviceSpec.preset("p150")).options.board == "p150"
    b = GraphBuilder("one")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 32, 32))))
    result = optimize(graph, DeviceSpec.preset("p150"), Options(board="mine.json"))
    assert result.options.board == "p150"


@pytest.mark.parametrize(
    ("stated", "found", "equal"),
    [(1, 1.0, True), (True, 1, False), ({"a": [1]}, {"a": (1,)}, True), ({"a": 1}, {"b": 1}, False), (None, 0, False)],
)
def test_equality_of_stated_and_recomputed(stated: object, found: object, equal: bool) -> None:
    assert same(stated, found) is equal


# -- with the model -------------------------------------------------------------------------------------------
def test_the_model_is_compared_too(tmp_path: Path) -> None:
    model = GRAPHS / "mlp.json"
    result = read_result(written(optimize_file(model, Options()), tmp_path))
    record = check_record(result, model=model)
    assert (record["ok"], record["model"]) == (True, {"ok": True, "sha256_stated": True})
    other = check_record(result, model=GRAPHS / "fork.json")
    assert not other["ok"]
    assert other["errors"][0]["message"].startswith("the file has the SHA-256")


@pytest.mark.parametrize(
    "options",
    [
        {"weights_dtype": "bfp8_b"},
        {"math_fidelity": "lofi"},
        {"override_output_layout": "fc0=f32"},
        {"optimization_level": 0},
        {"row_major_enabled": True},
    ],
)
def test_options_that_change_the_graph_are_no_difference(options: dict[str, object], mlp_onnx: Path) -> None:
    given = {k: v.replace("fc0", "fc1") if isinstance(v, str) else v for k, v in options.items()}
    result = optimize_file(mlp_onnx, Options.from_mapping(given))
    assert check_record(result, model=mlp_onnx)["errors"] == []


# -- reading --------------------------------------------------------------------------------------------------
def _twice(text: str) -> str:
    return text.replace('"name": "pair"', '"name": "pair", "name": "pair"', 1)


def _endless(text: str) -> str:
    return text.replace('"tensor_l1_usage_cap": 0.95', '"tensor_l1_usage_cap": 1e999')


def _half_a_character(text: str) -> str:
    return text.replace('"name": "pair"', '"name": "\\ud800"', 1)


def _half_a_shard(text: str) -> str:
    return text.replace('"orientation": null', '"orientation": "row_major"', 1)


def _word_for_a_number(text: str) -> str:
    return text.replace('"programs": ', '"programs": "1", "_": ', 1)


@pytest.mark.parametrize("spoil", [_twice, _endless, _half_a_character, _half_a_shard, _word_for_a_number])
def test_documents_that_programs_read_differently_are_refused(spoil: Callable[[str], str], tmp_path: Path) -> None:
    path = written(planned(), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert spoil(text) != text
    path.write_text(spoil(text), encoding="utf-8")
    with pytest.raises(FormatError):
        read_result(path)


def test_a_document_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(planned(), tmp_path)
    monkeypatch.setattr(stored, "MAX_BYTES", 1000)
    with pytest.raises(LimitError):
        read_result(path)
