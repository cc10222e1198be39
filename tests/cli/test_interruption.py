"""Ctrl-C while `ttopt optimize` works."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.cli.ending import INTERRUPTED
from optimizer.cli.interruption import Interruption
from optimizer.cli.progress import Event, ProgressBar
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import os, signal, sys
sys.path.insert(0, {finder!r})
import holding
holding.press_when_loaded({module!r})
from optimizer.cli import main
sys.exit(main())
"""
HOLDING = """
import os, signal, sys

class Press:
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

def press_when_loaded(module):
    sys.meta_path.insert(0, Press(module))
"""


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_ends_the_search_the_second_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with Interruption() as interrupted:
        interrupted.enter_stage("policy")
        press()
        assert interrupted()
        assert "Ctrl-C once more" in capsys.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            press()


def test_outside_the_search_one_is_enough() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interrupted:
        interrupted.enter_stage("legal-configs")
        with pytest.raises(KeyboardInterrupt):
            press()
        assert not interrupted()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("policy", ["global", "dfsharding2", "dfsharding", "dram"])
def test_the_best_plan_so_far_is_written(
    policy: str, run: Run, mlp_onnx: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C as soon as the policy begins."""

    def show(_self: ProgressBar, event: Event) -> None:
        if event.stage == "policy" and not event.detail:
            press()

    monkeypatch.setattr(ProgressBar, "__call__", show)
    status, _, err = run("optimize", mlp_onnx, "-o", tmp_path, "--policy", policy)
    assert status == INTERRUPTED
    assert "interrupted; the result is the best plan found until then" in err
    summary = json.loads((tmp_path / "graph.json").read_text())["summary"]
    assert "interrupted: this is the best plan found until then" in summary["warnings"]
    assert run("check", tmp_path)[0] == 0


def _hear_interrupts() -> None:
    """A shell starts what runs in the background deaf to Ctrl-C, and its children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize(
    "module",
    [
        "optimizer.cli.command",
        "optimizer.cli.parser",
        "optimizer.cli.interruption",
        "optimizer.cli.models",
        "optimizer.pipeline",
        "optimizer.importers.json_graph",
        "optimizer.sharding.dram",
        "numpy",
    ],
)
def test_while_modules_load_one_ends_the_command_without_a_traceback(module: str, tmp_path: Path) -> None:
    (tmp_path / "holding.py").write_text(HOLDING)
    model = ROOT / "fixtures" / "graphs" / "mlp.json"
    code = HOLD.format(finder=str(tmp_path), module=module)
    command = [sys.executable, "-c", code, "optimize", str(model), "--policy", "dram", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, preexec_fn=_hear_interrupts)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "ttopt: interrupted\n")


def test_an_interrupt_that_is_lost_counts_all_the_same() -> None:
    """In a destructor, where Python prints an exception and goes on."""
    code = """
import os, signal, sys
from optimizer.cli import interruption
class Lost:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000): pass
def command():
    Lost()
    return 0
sys.exit(interruption.run_interruptibly(command))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "ttopt: interrupted\n")


def test_a_caller_of_main_keeps_its_handler(run: Run) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert run("boards")[0] == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_loaded_before_the_handler_stands() -> None:
    code = "import sys; before = set(sys.modules); import optimizer.cli; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(done.stdout.split()) <= {"__future__", "_signal", "optimizer", "optimizer.cli", "optimizer.cli.ending"}
