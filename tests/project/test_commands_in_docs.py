"""Every command block of the README and the docs is run as it stands, in a folder that holds what it names.

A block of commands is fenced as `sh` and run in the normal tests, as `sh slow` in the slow ones, as `sh not run: WHY`
where it needs what no test has. A synopsis is fenced as `text`, a command with what it prints as `console`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optimizer.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
NOT_RUN = "not run: "
SECONDS = 300
COMMAND = re.compile(r"\$? ?(?:[A-Z_]+=\S+ )*(?:ttopt|python3?|make|pip|curl|docker|uvicorn|systemctl|psql) ")
PORT = 8000
"""As the pages have it; a test takes a free one."""


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            found.append(Block(page, text.count("\n", 0, match.start()) + 1, match[1].strip(), match[2]))
    return found


def of_kind(*infos: str) -> list[Block]:
    return [block for block in blocks() if block.info in infos]


def example(heading: str) -> str:
    """The JSON under a heading of docs/formats.md."""
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    under = page.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    found = re.search(r"```json\n(.*?)```", under, re.DOTALL)
    assert found is not None, heading
    return json.dumps(json.loads(found[1]))


def small_net(*sizes: int | str) -> onnx.ModelProto:
    """Two convolutions, `conv1` and `conv2`, of an input of these sizes."""
    arrays = {"w1": np.ones((32, 3, 3, 3), np.float32), "w2": np.ones((32, 32, 3, 3), np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="act"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="conv2", pads=[1, 1, 1, 1]),
    ]
    dims = {"x": sizes, "y": None}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in dims.items())
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory, mlp_onnx: Path) -> Path:
    """A folder with the files that the pages name."""
    folder = tmp_path_factory.mktemp("prepared")
    onnx.save(small_net(1, 3, 32, 32), folder / "model.onnx")
    onnx.save(small_net("batch", 3, "side", "side"), folder / "open_sizes.onnx")
    (folder / "models").mkdir()
    shutil.copy(mlp_onnx, folder / "models")
    shutil.copy(folder / "model.onnx", folder / "models")
    for name, policy in (("a.ttopt", "dram"), ("b.ttopt", "dfsharding")):
        assert main(["optimize", str(folder / "model.onnx"), "-o", str(folder / name), "--policy", policy]) == 0
    for name, heading in (("pair.json", "Input graph"), ("kernel.json", "Tile DAGs"), ("program.json", "GPU programs")):
        (folder / name).write_text(example(heading), encoding="utf-8")
    rows = (ROOT / "fixtures" / "opmodel" / "sample.jsonl").read_text(encoding="utf-8").splitlines()[:2]
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name in ("fixtures", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    tools = folder / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "activate").write_text("", encoding="utf-8")
    scripts = {"ttopt": f"{sys.executable} -m optimizer.cli", "python": sys.executable}
    if (curl := shutil.which("curl")) is not None:
        scripts["curl"] = f"{curl} --fail-with-body -sS"
    for name, command in scripts.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    return folder


def run(text: str, prepared: Path, folder: Path) -> str:
    """What a block prints, run by a shell that ends with the first command that fails."""
    shutil.copytree(prepared, folder, symlinks=True, dirs_exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = text.replace("ttopt serve", f"ttopt serve --port {port}").replace(f"localhost:{PORT}", f"localhost:{port}")
    environment = {
        **os.environ, "PATH": f"{folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "HOME": str(folder), "TTOPT_ANSWER_CACHE": str(folder / "answers"), "TTOPT_WORKERS": "1",
        "no_proxy": "localhost",
    }  # fmt: skip
    printed = folder / "printed"
    with printed.open("w", encoding="utf-8") as out:
        shell = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", text], cwd=folder, env=environment, stdout=out,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            status = shell.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    shown = printed.read_text(encoding="utf-8")
    assert status == 0, f"exit code {status}\n{shown[-2000:]}"
    return shown


def test_every_block_of_commands_says_what_it_is() -> None:
    kinds = re.compile(rf"(sh( slow| {re.escape(NOT_RUN)}.+)?|console|text)")
    with_commands = [b for b in blocks() if any(COMMAND.match(line) for line in b.text.splitlines())]
    unmarked = [b.name for b in with_commands if not kinds.fullmatch(b.info)]
    assert unmarked == []
    assert all(COMMAND.match(line) for b in of_kind("sh") for line in b.text.splitlines()[1:] if line.strip())


def test_what_is_not_run_needs_what_no_test_has() -> None:
    reasons = {block.info.partition(NOT_RUN)[2] for block in blocks() if block.info.startswith(f"sh {NOT_RUN}")}
    assert reasons == {
        "installs a package", "makes the environment first", "needs a board", "needs a container engine",
        "needs several machines", "needs the simulator", "needs the simulator or a board",
    }  # fmt: skip


@pytest.mark.parametrize("block", of_kind("sh"), ids=lambda block: block.name)
def test_commands_run(block: Block, prepared: Path, tmp_path: Path) -> None:
    run_block(block, prepared, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("block", of_kind("sh slow"), ids=lambda block: block.name)
def test_slow_commands_run(block: Block, prepared: Path, tmp_path: Path) -> None:
    run_block(block, prepared, tmp_path)


def run_block(block: Block, prepared: Path, tmp_path: Path) -> None:
    if "curl" in block.text and shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    run(block.text, prepared, tmp_path)


@pytest.mark.slow
def test_the_python_of_the_readme_runs(prepared: Path, tmp_path: Path) -> None:
    (block,) = (b for b in of_kind("python") if b.page.name == "README.md")
    (tmp_path / "readme.py").write_text(block.text, encoding="utf-8")
    run("python readme.py", prepared, tmp_path)
    assert (tmp_path / "out" / "model_ttnn.py").exists()


@pytest.mark.slow
def test_the_client_of_the_service_page_runs(prepared: Path, tmp_path: Path) -> None:
    (block,) = (b for b in of_kind("python") if b.page.name == "service.md")
    asked = 'import urllib.request as r; r.urlopen("http://localhost:8000/readyz")'
    wait = f"until python -c '{asked}' 2> waiting; do sleep 1; done"
    client = f"cat > client.py <<'END'\n{block.text}END\npython client.py"
    shown = run(f"ttopt serve &> log &\n{wait}\n{client}", prepared, tmp_path)
    assert int(shown.splitlines()[-1].split()[0]) > 0, shown
    assert (tmp_path / "model_ttnn.zip").read_bytes()[:2] == b"PK"


@pytest.mark.slow
@pytest.mark.parametrize("block", of_kind("console"), ids=lambda block: block.name)
def test_a_page_shows_what_a_command_prints(block: Block, prepared: Path, tmp_path: Path) -> None:
    command, _, shown = block.text.partition("\n")
    printed = run(command.removeprefix("$ "), prepared, tmp_path)

    def without_seconds(text: str) -> list[str]:
        return [line for line in text.strip().splitlines() if not line.startswith("seconds")]

    assert without_seconds(printed) == without_seconds(shown)
