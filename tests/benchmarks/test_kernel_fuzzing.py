"""The fuzz targets of the kernel compilers: a short run, and the cases that once ended as no input may."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing.asm_programs import AsmTarget
from fuzzing.commands import payload_of, run_payload
from fuzzing.harness import judge, make_case
from fuzzing.kernel_programs import KernelTarget
from fuzzing.random_kernels import RandomKernelTarget

from optimizer.process.identifiers import Identifiers

FUZZ = Path(__file__).resolve().parents[2] / "fixtures" / "fuzz"
FOUND = sorted(FUZZ.glob("kernel/*")) + sorted(FUZZ.glob("asm/*"))


@pytest.mark.parametrize("target", [KernelTarget(), AsmTarget()], ids=lambda t: t.name)
def test_a_short_run_finds_nothing(target: KernelTarget | AsmTarget) -> None:
    found = []
    for seed in range(60):
        case = make_case(target, seed)
        outcome, finding = judge(target, case.payload)
        found += [(seed, case.name, outcome, finding)] if finding else []
    assert not found


def test_random_kernels_end_and_compute_the_same_with_few_registers() -> None:
    target = RandomKernelTarget()
    verdicts = [judge(target, make_case(target, seed).payload) for seed in range(12)]
    assert not [finding for _, finding in verdicts if finding]
    assert {outcome for outcome, _ in verdicts} == {"status 0", "refused: out-of-registers"}


@pytest.mark.parametrize("path", FOUND, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_what_was_found_once_ends_in_a_refusal_or_a_result(path: Path) -> None:
    outcome, finding = judge(KernelTarget(), path.read_bytes())
    assert not finding, outcome


def test_cases_follow_from_their_seed() -> None:
    for target in (KernelTarget(), AsmTarget()):
        assert [make_case(target, n) for n in range(20)] == [make_case(target, n) for n in range(20)]


def test_texts_that_are_written_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets fail where a name reaches an emitted file as it is."""

    def unchanged(_: Identifiers, name: str) -> str:
        return f"{name}\n#include <x>" if name.endswith("_t") else name

    monkeypatch.setattr(Identifiers, "of", unchanged)
    content = b'[{"id": "c", "inputs": ["a"], "outputs": ["o"], "ops": [], "yield": ["a"]}]'
    with pytest.raises(AssertionError, match="include"):
        run_payload(payload_of("cases.json", ["kernel", "compile", "FILE", "-o", "DIR"], content))
