"""Limits of tile programs, and bodies that once took a time with the third power of their ops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from optimizer.cli import main
from optimizer.errors import LimitError
from optimizer.kernels.tensix import pipeline
from optimizer.kernels.tensix.dst import live_sets
from optimizer.kernels.tensix.passes import fuse_computes, fuse_siblings
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source import terms
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.source.text import parse

LOOPED = Path("fixtures/kernels/looped.ttl").read_text(encoding="utf-8")
ZERO = "    %zero = ttl.constant {value = 0} : index\n"


def case(ops: list[tuple[str, str, list[str]]], outputs: list[str]) -> dict[str, Any]:
    """16 inputs `x0`, ...; ops as (name, op, operands)."""
    return {
        "id": "case",
        "inputs": [f"x{n}" for n in range(16)],
        "outputs": [f"o{n}" for n in range(len(outputs))],
        "ops": [{"name": name, "op": op, "args": args} for name, op, args in ops],
        "yield": outputs,
    }


def tree(count: int) -> dict[str, Any]:
    """A sum of inputs, two and two."""

    def read(n: int) -> str:
        return f"v{n}" if n < count else f"x{n % 16}"

    return case([(f"v{n}", "add", [read(2 * n + 1), read(2 * n + 2)]) for n in reversed(range(count))], ["v0"])


def apart(count: int) -> dict[str, Any]:
    """Computes that do not read each other."""
    ops = [(f"v{n}", "exp" if n % 2 else "abs", [f"x{n % 16}"]) for n in range(count)]
    return case(ops, [name for name, _, _ in ops])


def counted(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> list[object]:
    """One element per call of a function from now on."""
    calls: list[object] = []
    function = getattr(place, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        calls.append(None)
        return function(*args, **kwargs)

    monkeypatch.setattr(place, name, called)
    return calls


# -- time -------------------------------------------------------------------------------------------------
def test_a_tree_is_fused_by_looking_at_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every pair was tried again after every merge: 9,000,000 for 600 ops."""
    tried = counted(monkeypatch, fuse_computes, "fusable")
    (found,) = read_cases([tree(40)])
    lower(case_program(found), KernelOptions(schedule="given"))
    assert len(tried) < 2 * 40


def test_siblings_are_priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = counted(monkeypatch, fuse_siblings, "merge")
    lower(case_program(read_cases([apart(7)])[0]))
    assert len(tried) <= 7 * 6


def test_what_can_run_follows_from_what_could_before() -> None:
    """`ready_behind` says of every node what looking at all of them says."""
    (found,) = read_cases([tree(30)])
    sets = live_sets.LiveSets(found.dag)
    done, ready = 0, sets.first
    while ready:
        n = next(live_sets.bits(ready))
        done |= 1 << n
        ready = sets.ready_behind(ready, n, done)
        waiting = [m for m, needs in enumerate(sets.needs) if not done >> m & 1 and not needs & ~done]
        assert list(live_sets.bits(ready)) == waiting
    assert done == (1 << 30) - 1


# -- limits -----------------------------------------------------------------------------------------------
def test_compiling_takes_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "MAX_STEPS", 1_000)
    with pytest.raises(LimitError, match=r"looped: compiling it takes more than 1,000 steps.*--no-fuse"):
        lower(parse(LOOPED))


def test_a_program_that_takes_more_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_STEPS", 100)
    (tmp_path / "k.ttl").write_text(LOOPED)
    assert main(["kernel", "compile", str(tmp_path / "k.ttl")]) == 2
    assert "looped: compiling it takes more than 100 steps" in capsys.readouterr().err


def test_all_cases_of_a_file_share_their_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "MAX_FILE_STEPS", 3_000)
    path = tmp_path / "cases.json"
    path.write_text(json.dumps([{**tree(3), "id": str(n)} for n in range(8)]))
    assert main(["kernel", "compile", str(path), "--schedule", "given"]) == 1
    errors = [json.loads(line)["error"] for line in capsys.readouterr().out.splitlines()]
    assert errors[0] is None
    assert errors[-1].startswith(f"{path}: compiling all of it takes more than 3,000 steps")


def test_a_text_has_so_many_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(list(terms.Tokens(LOOPED)._split()))
    monkeypatch.setattr(terms, "MAX_TOKENS", count)
    parse(LOOPED)
    with pytest.raises(LimitError, match=rf"line 57, column 1: more than {count} words, numbers and marks"):
        parse(LOOPED + "\n\n}")


def test_programs_of_many_constants_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    constants = "".join(f"    %k{n} = ttl.constant {{value = {n}}} : index\n" for n in range(2_000))
    (tmp_path / "k.ttl").write_text(LOOPED.replace(ZERO, ZERO + constants))
    assert main(["kernel", "compile", str(tmp_path / "k.ttl")]) == 2
    assert "a program of 2041 ops" in capsys.readouterr().err


def test_accessors_cost_nothing() -> None:
    """Names for a tensor, of which each was once looked at behind every op."""
    accessors = "".join(f"    %k{n} = ttl.tensor_accessor(%x)\n" for n in range(5_000))
    assert parse(LOOPED.replace(ZERO, ZERO + accessors)) == parse(LOOPED)


# -- operands ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%w_block = ttl.cb_wait(%w_cb)", "%w_block = ttl.cb_wait", "@math / ttl.cb_wait #0: has 0 operands, takes 1"),
        ("%room = ttl.cb_reserve(%y_cb)", "%room = ttl.cb_reserve", "ttl.cb_reserve #1: has 0 operands, takes 1"),
        ("ttl.cb_pop(%w_cb)", "ttl.cb_pop", "ttl.cb_pop #2: has 0 operands, takes 1"),
        ("ttl.store(%e, %room)", "ttl.store(%e)", "ttl.store #4: has 1 operands, takes 2"),
    ],
)
def test_ops_without_their_operands_are_refused(
    old: str, new: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in LOOPED
    (tmp_path / "k.ttl").write_text(LOOPED.replace(old, new))
    assert main(["kernel", "compile", str(tmp_path / "k.ttl")]) == 2
    assert message in capsys.readouterr().err
