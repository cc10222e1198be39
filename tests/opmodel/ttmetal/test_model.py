"""The backend as the optimizer sees it: recorded answers, the cache, machines without ttnn."""

from __future__ import annotations

import importlib.metadata
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OpModelError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    DRAM_TILE,
    BufferType,
    MemoryConfig,
    PageLayout,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.opmodel import registry
from optimizer.opmodel.answer_cache import AnswerCache
from optimizer.opmodel.answer_records import Context
from optimizer.opmodel.base import BatchOpModel, OpQuery, ProgramRunner, Rejection, TensorSpec
from optimizer.opmodel.query import query_rows
from optimizer.opmodel.rows import query_from_row
from optimizer.opmodel.ttmetal import model as model_module
from optimizer.opmodel.ttmetal.model import TTMetalOpModel
from optimizer.opmodel.ttmetal.pool import close_all

SLOW_OPS = ("conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "upsample")
"""Whose host code or many kernels take long; `benchmarks/ttmetal_backend.py` asks about every row."""
DRAM = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[AnswerCache]:
    made = AnswerCache(tmp_path / "answers.sqlite3")
    yield made
    made.close()


@pytest.fixture
def without_ttnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where ttnn is not installed."""

    def distribution(name: str) -> importlib.metadata.Distribution:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)


def relu(rows: int, op: str = "ttnn.relu") -> OpQuery:
    return OpQuery(op, (TensorSpec((rows, 64), DType.BF16, TensorLayout(PageLayout.TILE, DRAM)),), output=DRAM)


def sample(project_root: Path) -> list[dict[str, Any]]:
    lines = (project_root / "fixtures/opmodel/sample.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["op"] not in SLOW_OPS and row.get("kind") != "abort"][::4]


def test_recorded_answers_are_given_again(needs_ttnn: None, project_root: Path) -> None:
    """Verdict, kind, output memory config and bytes, exactly."""
    rows = sample(project_root)
    fields = ("valid", "kind", "out_mem", "peak_cb", "peak_l1", "peak_total")
    assert len(rows) > 100
    assert {row["board"] for row in rows} == {"n150", "p150"}
    answers = query_rows(rows, "ttmetal", jobs=2)
    pairs = list(zip(rows, answers, strict=True))
    asked = [(row, answer) for row, answer in pairs if answer["kind"] != Rejection.WRONG_VALUES]
    assert len(pairs) - len(asked) == 2
    for row, answer in asked:
        wanted = {name: row.get(name) for name in fields} if row["valid"] else {"valid": False, "kind": row["kind"]}
        assert {name: answer[name] for name in wanted} == wanted, (row["id"], row["op"], answer["error"])
        assert answer["id"] == row["id"]


def test_rows_of_several_boards_keep_their_order_up_to_a_bad_one(needs_ttnn: None) -> None:
    operand = {"shape": [64, 64], "dtype": "bf16", "layout": "tile", "memory_layout": "interleaved", "buffer": "dram"}
    rows = [{"id": i, "op": "relu", "board": b, "inputs": [operand]} for i, b in enumerate(["p150", "n150", "p150"])]
    answers = query_rows([*rows, {"id": 3, "op": 7}, rows[0]], "ttmetal")
    assert [next(answers)["id"] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(FormatError, match=r"row 4 \(id 3\)"):
        next(answers)


def test_it_answers_batches_and_runs_programs(needs_ttnn: None, n150: DeviceSpec) -> None:
    backend = registry.create("ttmetal", n150)
    assert isinstance(backend, BatchOpModel)
    assert isinstance(backend, ProgramRunner)
    queries = [relu(64), relu(32), relu(64)]
    assert backend.constraints_many(queries) == [backend.constraints(q) for q in queries]
    assert backend.constraints_many([]) == []


def test_answers_outlive_the_process_that_asked(
    needs_ttnn: None, n150: DeviceSpec, cache: AnswerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = TTMetalOpModel(n150, 32768, cache)
    expected = asked.constraints_many([relu(rows) for rows in (32, 64, 96)])
    monkeypatch.setattr("optimizer.opmodel.ttmetal.pool.Pool.ask", _must_not_ask)
    again = TTMetalOpModel(n150, 32768, cache)
    assert [again.constraints(relu(rows)) for rows in (32, 64, 96)] == expected
    with pytest.raises(AssertionError, match="asked"):
        TTMetalOpModel(n150, 0, cache).constraints(relu(32))  # another l1_small, other answers


def _must_not_ask(*_: Any, **__: Any) -> None:
    raise AssertionError("asked the child")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("__import__('os').kill(__import__('os').getpid(), 11)", Rejection.ABORT),
        ("__import__('time').sleep(100)", Rejection.TIMEOUT),
    ],
)
def test_poison_is_remembered(
    needs_ttnn: None, n150: DeviceSpec, cache: AnswerCache, monkeypatch: pytest.MonkeyPatch, call: str, kind: Rejection
) -> None:
    monkeypatch.setattr(model_module, "call_text", lambda *_: call)
    monkeypatch.setenv("TTOPT_TTMETAL_TIMEOUT", "1")
    answer = TTMetalOpModel(n150, 32768, cache).constraints(relu(32))
    assert (answer.valid, answer.kind) == (False, kind)
    with monkeypatch.context() as patched:
        patched.setattr("optimizer.opmodel.ttmetal.pool.Pool.ask", _must_not_ask)
        assert TTMetalOpModel(n150, 32768, cache).constraints(relu(32)) == answer
        patched.setenv("TTOPT_TTMETAL_TIMEOUT", "2")
        patient = TTMetalOpModel(n150, 32768, cache)
        if kind is Rejection.ABORT:
            assert patient.constraints(relu(32)) == answer
        else:  # with more patience it may be answered
            with pytest.raises(AssertionError, match="asked"):
                patient.constraints(relu(32))
    close_all()


def test_an_unreadable_answer_is_asked_again(
    needs_ttnn: None, n150: DeviceSpec, cache: AnswerCache, caplog: pytest.LogCaptureFixture
) -> None:
    first = TTMetalOpModel(n150, 32768, cache)
    answer = first.constraints(relu(32))
    cache.flush()
    [(question,)] = cache._connection.execute("SELECT question FROM answers").fetchall()
    cache.put(first.context, question, '{"valid":true,"outputs":"none"}')
    again = TTMetalOpModel(n150, 32768, cache)
    with caplog.at_level(logging.WARNING):
        assert again.constraints(relu(32)) == answer
    assert "an unreadable answer is asked again" in caplog.text


def test_an_op_the_vocabulary_lacks_stays_in_dram(needs_ttnn: None, n150: DeviceSpec) -> None:
    backend = registry.create("ttmetal", n150)
    assert backend.constraints(relu(32, "ttnn.unheard_of")).valid


def test_a_board_that_is_not_the_devices_is_refused(needs_ttnn: None, n150: DeviceSpec) -> None:
    fewer = replace(n150, grid_yx=(7, 8))
    with pytest.raises(OpModelError, match=r"grid_yx \[8, 8\] instead of \[7, 8\]"):
        registry.create("ttmetal", fewer).constraints(relu(32))


def test_a_board_without_a_mock_device_is_refused(needs_ttnn: None, n150: DeviceSpec) -> None:
    with pytest.raises(OpModelError, match="no mock device for board 'mine'") as caught:
        registry.create("ttmetal", replace(n150, name="mine"))
    assert {"n150", "n300", "p100", "p150"} <= set(caught.value.alternatives)


def test_a_real_device_that_is_not_there_is_said_so(
    needs_ttnn: None, n150: DeviceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/dev/tenstorrent").exists():
        pytest.skip("this machine has a device")
    monkeypatch.setenv("TTOPT_TTMETAL_DEVICE", "real")
    with pytest.raises(OpModelError, match=r"does not start for board 'n150' .*on a real device"):
        registry.create("ttmetal", n150).constraints(relu(32))


class TestWithoutTTNN:
    @pytest.mark.usefixtures("without_ttnn")
    def test_it_says_what_to_install(self, n150: DeviceSpec, cache: AnswerCache) -> None:
        with pytest.raises(OpModelError) as caught:
            TTMetalOpModel(n150, 32768, cache)
        assert "pip install '.[ttmetal]'" in caught.value.message
        assert "TTOPT_TTMETAL_PYTHON" in caught.value.message

    @pytest.mark.usefixtures("without_ttnn")
    def test_kept_answers_serve(self, n150: DeviceSpec, cache: AnswerCache) -> None:
        text = '{"call":"ttnn.relu(x0, memory_config=ttnn.DRAM_MEMORY_CONFIG)","inputs":[%s]}'
        operand = '{"buffer":"dram","dtype":"bf16","layout":"tile","memory_layout":"interleaved","shape":[32,64]}'
        output = {
            "shape": [32, 64],
            "dtype": "bf16",
            "layout": "tile",
            "memory_layout": "interleaved",
            "buffer": "dram",
        }
        kept = {"valid": True, "outputs": [output], "cores": 2, "peak_cb": 8192, "peak_l1": 0, "peak_total": 8192}
        for version in ("0.81.1", "0.9.0"):
            cache.put(Context(version, "a1", "n150", 32768, "mock"), text % operand, json.dumps(kept))
        backend = TTMetalOpModel(n150, 32768, cache)
        assert "answers kept of ttnn 0.81.1" in backend.describe()
        answer = backend.constraints(relu(32))
        assert (answer.valid, answer.cb_bytes, answer.cores) == (True, 8192, 2)
        with pytest.raises(OpModelError, match=r"no answer of ttnn 0\.81\.1 .*ttnn\.relu.*\[64,64\]"):
            backend.constraints(relu(64))


def test_an_export_answers_where_ttnn_is_absent(
    needs_ttnn: None,
    n150: DeviceSpec,
    cache: AnswerCache,
    project_root: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    queries = [query_from_row(row) for row in sample(project_root) if row["board"] == "n150"][:30]
    expected = TTMetalOpModel(n150, 32768, cache).constraints_many(queries)
    copy = AnswerCache(tmp_path / "copy.sqlite3")
    copy.import_records(json.loads(line) for line in cache.export_lines())
    request.getfixturevalue("without_ttnn")
    assert TTMetalOpModel(n150, 32768, copy).constraints_many(queries) == expected
    copy.close()


def test_weights_are_asked_in_the_form_that_the_program_prepares(needs_ttnn: None, n150: DeviceSpec) -> None:
    x, w = TensorSpec((1, 1, 256, 128), DType.BF16, DRAM_TILE), TensorSpec((128,), DType.BF16, DRAM_TILE)
    attrs = (("epsilon", 1e-5), ("num_groups", 32))
    query = OpQuery("ttnn.group_norm", (x, w, w), attrs, output=DRAM_TILE.memory)
    assert TTMetalOpModel(n150, 32768, None).constraints(query).valid
