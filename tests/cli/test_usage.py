"""Wrong command lines: exit code 2 and one line that helps."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.cli import main
from optimizer.cli.arguments import options_from
from optimizer.cli.ending import INTERRUPTED
from optimizer.cli.parser import build_parser, command_parsers, parse
from optimizer.options import Options, option_infos
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimise"], "unknown command 'optimise', did you mean 'optimize'?"),
        ([], "a command is needed: optimize,"),
        (["optimize"], "the following arguments are required: MODEL"),
        (["optimize", "m.onnx", "--polcy", "dram"], "unknown option '--polcy', did you mean '--policy'"),
        (["optimize", "m.onnx", "--tensor-l1", "1"], "unknown option '--tensor-l1'"),
        (["optimize", ""], "argument MODEL: an empty path"),
        (["optimize", "m.onnx", "-o", ""], "argument -o/--output: an empty path"),
        (["optimize", "/"], "/: the model must be a file"),
        (["optimize", "m.onnx", "extra"], "unexpected argument 'extra'"),
        (["optimize", "m.onnx", "--seed", "x"], "'seed' must be a whole number, got 'x'"),
        (["optimize", "m.onnx", "--time-limit", "0"], "'time_limit' must be positive"),
        (["optimize", "m.onnx", "--time-limit", "inf"], "'time_limit' must be positive and finite"),
        (["optimize", "m.onnx", "--l1-small-bytes", "9" * 400], "'l1_small_bytes' must be at most 2**53"),
        (["batch", "m.onnx", "-o", "out", "--deadline", "nan"], "'--deadline' must be positive and at most 1000000"),
        (["batch", "m.onnx", "-o", "out", "--deadline", "inf"], "'--deadline' must be positive and at most 1000000"),
        (["optimize", "m.onnx", "--tensor-l1-usage-cap", "nan"], "'tensor_l1_usage_cap' must be in (0, 1]"),
        (["optimize", "m.onnx", "--math-fidelity", "hifi5"], "cannot be 'hifi5' (one of: lofi, hifi2, hifi3, hifi4)"),
        (["optimize", "m.onnx", "--input-shapes", "x=1,2"], "takes NAME:1,3,224,224, got 'x=1,2'"),
        (["optimize", "m.onnx", "--input-shapes", "x:1,0"], "shape of 'x' must be a list of positive integers"),
        (["optimize", "m.onnx", "--emit", "json,pdf"], "unknown emitter 'pdf' (one of: json"),
        (["optimize", "m.onnx", "--format", "xml"], "invalid choice: 'xml'"),
        (["boards", "--format"], "expected one argument"),
        (["opmodel"], "the following arguments are required: COMMAND"),
        (["opmodel", "qery"], "invalid choice: 'qery'"),
        (["batch", "m.onnx", "-o", "out", "--jobs", "0"], "argument --jobs: '0' is no whole number from 1"),
        (["optimize", "m.onnx", "--quiet"], "unknown option '--quiet' (see"),
        (["serve", "--port", "99999"], "'--port' must be between 1 and 65535"),
    ],
)
def test_wrong_usage(run: Run, arguments: list[str], message: str) -> None:
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err.startswith("ttopt: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "n15O"], "unknown board 'n15O', did you mean 'n150'?"),
        (["--board", "nowhere.json"], "nowhere.json: cannot read board file"),
        (["--policy", "dfshard"], "unknown policy 'dfshard', did you mean 'dfsharding'"),
        (["--opmodel", "ttmetl"], "unknown OpModel backend 'ttmetl'"),
        (["--override-output-layout", "fc9=dram"], "fc9"),
        (["--max-nodes", "1"], "limit"),
    ],
)
def test_names_that_do_not_exist(run: Run, mlp_onnx: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    status, out, err = run("optimize", mlp_onnx, "-o", tmp_path / "out", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_every_option_is_a_flag_and_nothing_else_is() -> None:
    flags = {flag for action in command_parsers(build_parser())["optimize"]._actions for flag in action.option_strings}
    of_options = {info.flag for info in option_infos()}
    assert of_options <= flags
    negations = {flag.replace("--", "--no-", 1) for flag in of_options}
    others = flags - of_options - negations
    files = {"-o", "--output", "--weights", "--calibration"}
    assert others == {"-h", "--help", "--emit", "--print-after", "--format", "-v", "--verbose", *files}


def test_flags_arrive_as_options() -> None:
    text = "optimize m.onnx --board p150 --row-major-enabled --weights-dtype bfp8_b --activations-dtype none"
    text += " --input-shapes a:b:1,3 --input-shapes c:4x5 --time-limit 2.5 --optimization-level 1"
    options = options_from(parse(build_parser(), text.split()))
    assert options == Options(
        board="p150",
        row_major_enabled=True,
        weights_dtype="bfp8_b",
        activations_dtype=None,
        input_shapes={"a:b": (1, 3), "c": (4, 5)},
        time_limit=2.5,
        optimization_level=1,
    )


def test_no_flags_are_the_defaults() -> None:
    assert options_from(parse(build_parser(), ["optimize", "m.onnx"])) == Options()


@pytest.mark.parametrize("command", ["", *sorted(command_parsers(build_parser()))])
def test_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert f"usage: ttopt {command}".rstrip() in capsys.readouterr().out


def test_an_interrupt_is_exit_code_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("optimizer.cli.names.preset_names", interrupted)
    assert run("boards") == (INTERRUPTED, "", "ttopt: interrupted\n")


def test_a_defect_is_not_swallowed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("optimizer.cli.names.preset_names", broken)
    with pytest.raises(RuntimeError, match="boom") as defect:
        run("boards")
    assert "please report" in defect.value.__notes__[0]


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = [sys.executable, "-m", "optimizer.cli", "boards"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_a_full_disk_is_one_line() -> None:
    command = [sys.executable, "-m", "optimizer.cli", "boards"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "ttopt: error: No space left on device\n")


@pytest.mark.parametrize("closed", ["1", "2", "1 2"])
def test_closed_streams(closed: str) -> None:
    shut = "".join(f"os.close({fd});" for fd in closed.split())
    command = f"import os,sys;{shut}os.execv(sys.executable, [sys.executable, '-m', 'optimizer.cli', 'boards'])"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == (2 if "1" in closed else 0)
    assert done.stderr == ("ttopt: error: stdout is closed\n" if closed == "1" else "")


def test_serve_on_a_busy_port(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        status, out, err = run("serve", "--port", port)
    assert (status, out) == (2, "")
    assert err == f"ttopt: error: 127.0.0.1: cannot listen on port {port}: Address already in use\n"


@pytest.mark.parametrize("host", ["not a host", "x" * 300, "300.1.1.1"])
def test_serve_on_a_host_that_does_not_exist(run: Run, host: str) -> None:
    status, out, err = run("serve", "--host", host)
    assert (status, out) == (2, "")
    assert err.startswith(f"ttopt: error: {host}: ")
    assert err.count("\n") == 1


def test_names_that_are_no_text_are_shown_and_obey_nobody(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, a line break, and what would steer the terminal."""
    name = os.fsencode(tmp_path) + b"/\xff\nttopt: done\x1b[2J.json"
    command = [sys.executable, "-m", "optimizer.cli", "inspect", name]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"\\udcff" in done.stderr
    assert b"\x1b" not in done.stderr


@pytest.mark.slow
def test_files_whose_names_are_no_text_are_read_and_told(project_root: Path, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    model, board = folder + b"/\xff.json", folder + b"/\xfe.json"
    Path(os.fsdecode(model)).write_bytes((project_root / "fixtures" / "graphs" / "mlp.json").read_bytes())
    slow = json.loads((project_root / "optimizer" / "boards" / "n150.json").read_text()) | {"clock_mhz": 900}
    Path(os.fsdecode(board)).write_text(json.dumps(slow))
    command = [sys.executable, "-m", "optimizer.cli", "optimize", model, "--policy", "dram", "--board", board]
    for form in ("table", "json"):
        done = subprocess.run([*command, "--format", form], capture_output=True, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
        done.stdout.decode()
    result = Path(os.fsdecode(folder + b"/\xff.ttopt")) / "graph.json"
    assert json.loads(result.read_bytes().decode())["options"]["board"] == os.fsdecode(board)


def test_files_of_another_kind_are_told_apart(run: Run, mlp_onnx: Path, result_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    dag, program, graph = {"yield": []}, {"instructions": []}, {"model": {}, "ops": []}
    for name, document in (("dag.json", dag), ("program.json", program), ("graph.json", graph)):
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")
    answers = {
        ("optimize", result_folder): "a folder, not the file of a model",
        ("optimize", tmp_path / "notes.txt"): "files are known by their names (one of: *.json, *.onnx, *.pb)",
        ("check", mlp_onnx): "a model, not a result: `ttopt optimize` makes one of it",
        ("kernel", "compile", tmp_path / "program.json"): "a GPU program, which `ttopt asm` reads",
        ("kernel", "compile", tmp_path / "graph.json"): "a graph, which `ttopt optimize` reads",
        ("asm", "build", tmp_path / "graph.json"): "a graph, which `ttopt optimize` reads",
        ("check", tmp_path / "graph.json"): "not a result but a graph, which `ttopt optimize` reads",
        ("top", tmp_path / "dag.json"): "not a result but a tile DAG, which `ttopt kernel` reads",
        ("inspect", tmp_path / "dag.json"): "dag.json: a tile DAG, which `ttopt kernel` reads",
        ("optimize", tmp_path / "program.json"): "program.json: a GPU program, which `ttopt asm` reads",
        ("asm", "build", tmp_path / "dag.json"): "a tile DAG, which `ttopt kernel` reads",
    }
    for command, message in answers.items():
        status, out, err = run(*command)
        assert (status, out) == (2, "")
        assert message in err
