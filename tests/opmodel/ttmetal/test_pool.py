"""Children that die, hang or are killed: every query is answered once, in order, and as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from optimizer.opmodel.ttmetal.pool import Pool

TILE = 2048


def test_an_accepted_call_is_fully_answered(pool: Pool, ask) -> None:
    (answer,) = pool.ask([ask.softmax()])
    assert answer["valid"]
    assert answer["outputs"] == [{**ask.l1, "padded": [256, 128]}]
    assert (answer["peak_cb"], answer["peak_l1"], answer["peak_total"]) == (23 * TILE, TILE, 24 * TILE)
    (name, buffers), *more = answer["programs"]
    assert (name, more) == ("Softmax", [])
    assert {(kind, cores, backed) for kind, _, cores, backed in buffers} == {("dfb", 8, 0)}
    assert sum(size for _, size, _, _ in buffers) == answer["peak_cb"]


@pytest.mark.parametrize(
    ("call", "kind", "stage", "error"),
    [
        ("ttnn.matmul(x0, x0)", "validation", "op", "The width of the first tensor must be equal"),
        ("ttnn.matmul(x0, other=x0)", "validation", "op", "TypeError: "),
        ("ttnn.repeat(x0, (64, 64))", "oom_l1", "op", "Out of Memory: "),
    ],
)
def test_a_refused_call_gives_tt_metals_reason(pool: Pool, ask, call: str, kind: str, stage: str, error: str) -> None:
    (answer,) = pool.ask([ask.query(call, ask.l1)])
    assert (answer["valid"], answer["kind"], answer["stage"]) == (False, kind, stage)
    assert answer["error"].startswith(error)


def test_an_operand_that_cannot_exist_is_refused_as_such(pool: Pool, ask) -> None:
    shard = {"memory_layout": "height", "shard_shape": [33, 128], "grid": [[0, 0, 7, 0]]}
    (answer,) = pool.ask([ask.query("ttnn.relu(x0)", {**ask.l1, **shard})])
    assert (answer["valid"], answer["stage"], answer["kind"]) == (False, "input", "validation")
    assert answer["error"] == "Physical shard shape (33, 128) must be tile {32, 32} sized!"


@pytest.mark.parametrize("call", ["ttnn.no_such_op(x0)", "ttnn.relu(x7)", "ttnn.relu("])
def test_a_call_that_is_no_call_is_no_answer(pool: Pool, ask, call: str) -> None:
    (answer,) = pool.ask([ask.query(call, ask.l1)])
    assert "valid" not in answer
    assert call in answer["bad_request"]


def test_a_query_tt_metal_dies_of_is_an_abort_and_the_rest_is_answered(pool: Pool, ask) -> None:
    pool.ask([ask.softmax()])
    before = pool.restarts
    answers = pool.ask([ask.softmax(), ask.query(ask.crash), ask.softmax(), ask.query(ask.crash), ask.softmax()])
    assert [a["valid"] for a in answers] == [True, False, True, False, True]
    assert {a["kind"] for a in answers if not a["valid"]} == {"abort"}
    assert "SIGFPE" in answers[1]["error"]
    assert pool.restarts - before == 4  # each is asked twice, the second time of a fresh child


def test_a_query_that_takes_too_long_is_a_timeout_and_the_rest_is_answered(pool: Pool, ask) -> None:
    pool.hello()
    pool.timeout_seconds = 1
    try:
        fresh = Pool(pool.key, timeout_seconds=1)
        answers = fresh.ask([ask.softmax(), ask.query(ask.hang), ask.softmax()])
    finally:
        fresh.close()
        pool.timeout_seconds = 20
    assert [a["valid"] for a in answers] == [True, False, True]
    assert (answers[1]["kind"], answers[1]["seconds"]) == ("timeout", 1)


@pytest.mark.slow
def test_kills_from_outside_change_no_answer(pool: Pool, ask) -> None:
    questions = [ask.softmax(32 * (1 + i % 40)) for i in range(400)]
    expected = [_facts(a) for a in pool.ask(questions)]
    before, stop = pool.restarts, threading.Event()

    def kill() -> None:
        for _ in range(3):
            time.sleep(0.15)
            while not pool.pids() and not stop.is_set():
                time.sleep(0.01)
            for pid in pool.pids():
                os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    answers = pool.ask(questions)
    stop.set()
    killer.join()
    assert pool.restarts > before
    assert [_facts(a) for a in answers] == expected


@pytest.mark.slow
def test_a_query_that_is_always_killed_ends_as_an_abort_not_to_be_kept(pool: Pool, ask) -> None:
    suicide = "__import__('os').kill(__import__('os').getpid(), 9)"
    answers = pool.ask([ask.query(suicide), ask.softmax()])
    assert (answers[0]["kind"], answers[0]["passing"]) == ("abort", True)
    assert answers[1]["valid"]


def test_several_children_keep_the_order(pool: Pool, ask) -> None:
    questions = [ask.softmax(32 * (1 + i % 7)) for i in range(60)]
    questions[17] = ask.query(ask.crash)
    answers = pool.ask(questions, jobs=2)
    assert len(pool.pids()) == 2
    assert [a["valid"] for a in answers] == [i != 17 for i in range(60)]
    assert [a["outputs"][0]["shape"][0] for a in answers if a["valid"]] == [
        32 * (1 + i % 7) for i in range(60) if i != 17
    ]


def test_a_large_question_is_handed_over(pool: Pool, ask) -> None:
    """Larger than a pipe holds."""
    call = "ttnn.relu(x0)" + " " * 300_000
    assert [a["valid"] for a in pool.ask([ask.query(call, ask.l1)] * 3)] == [True] * 3


def test_children_end_with_their_parent(needs_ttnn: None) -> None:
    script = (
        "from optimizer.device import DeviceSpec\n"
        "from optimizer.opmodel.ttmetal import location\n"
        "from optimizer.opmodel.ttmetal.child import ChildKey\n"
        "from optimizer.opmodel.ttmetal.pool import Pool\n"
        "import os\n"
        "pool = Pool(ChildKey(location.find(), 'n150', 32768))\n"
        "pool.hello()\n"
        "print(pool.pids()[0], flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    pid = int(done.stdout)
    for _ in range(100):
        if not _alive(pid):
            return
        time.sleep(0.1)
    pytest.fail(f"child {pid} outlived its parent")


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _facts(answer: dict) -> dict:
    return {k: v for k, v in answer.items() if k != "ms"}
