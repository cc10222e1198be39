"""Files are written whole or not at all, and never through a link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from optimizer.cli import main
from optimizer.errors import OutputError
from optimizer.process.files import encoded, make_folder, replacing, write_bytes, write_text


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_new_and_old_files_hold_the_new_bytes_only(tmp_path: Path) -> None:
    for text in ("long text", "short"):
        write_text(tmp_path / "a", text)
        assert (tmp_path / "a").read_text() == text
    assert os.listdir(tmp_path) == ["a"]


def test_permissions_are_those_of_a_new_file(tmp_path: Path, umask: None) -> None:
    write_bytes(tmp_path / "a", b"x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def fail(file: object) -> None:
    raise KeyboardInterrupt


def fill(file: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("act", "raised"), [(fail, KeyboardInterrupt), (fill, OutputError)])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, act: Callable[[object], None], raised: type[BaseException]
) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(raised), replacing(tmp_path / "a") as file:  # noqa: PT012 - the block is what is tested
        file.write(b"new")
        act(file)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_is_neither_followed_nor_replaced(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("old")
    (tmp_path / "a").symlink_to("precious")
    with pytest.raises(OutputError, match="a link"):
        write_text(tmp_path / "a", "new")
    assert (tmp_path / "precious").read_text() == "old"
    assert (tmp_path / "a").is_symlink()


def test_pipes_and_folders_are_refused_and_devices_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing/a"):
        with pytest.raises(OutputError, match="cannot write"):
            write_text(tmp_path / name, "x")
    write_text(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OutputError, match="No space left"):
        write_text(Path("/dev/full"), "x")


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        make_folder(tmp_path / "a" / "b")


def test_text_that_is_no_unicode_is_escaped_as_json_and_python_do() -> None:
    assert encoded("a\udc80\ud800\u00e9") == b"a\\udc80\\ud800\xc3\xa9"


COMMAND = """
import resource, sys
from optimizer.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


def limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The command where no file grows beyond 1000 bytes, as on a full disk."""
    command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_a_full_disk_leaves_the_results_of_before(project_root: Path, tmp_path: Path) -> None:
    graphs = project_root / "fixtures" / "graphs"
    commands = {
        "graph.json": ("optimize", graphs / "mlp.json", "--policy", "dram", "-o", tmp_path),
        "graph.schema.json": ("schema", "-o", tmp_path),
        "model_ttnn.py": ("optimize", graphs / "fork.json", "--policy", "dram", "--emit", "ttnn-py", "-o", tmp_path),
    }
    for name, command in commands.items():
        (tmp_path / name).write_text("old")
        done = limited(*command)
        assert (done.returncode, done.stdout) == (2, ""), name
        assert done.stderr.count("\n") == 1
        assert "cannot write: File too large" in done.stderr
        assert (tmp_path / name).read_text() == "old"
    assert set(os.listdir(tmp_path)) == set(commands)


def test_batch_tables_of_before_survive_a_full_disk(project_root: Path, tmp_path: Path) -> None:
    model = project_root / "fixtures" / "graphs" / "mlp.json"
    for name in ("results.csv", "results.json"):
        (tmp_path / name).write_text("old")
    done = limited("batch", model, "--policy", "dram", "--jobs", "1", "-o", tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert (tmp_path / "results.json").read_text() == "old"
    assert (tmp_path / "results.csv").read_text() == "old"


@pytest.mark.slow
def test_every_artifact_refuses_a_link(project_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = str(project_root / "fixtures" / "graphs" / "mlp.json")
    precious = tmp_path / "precious"
    precious.write_text("old")
    for name in ("graph.json", "model_ttnn.py", "graph.schema.json", "results.csv", "results.json", "results.sqlite"):
        folder = tmp_path / name.replace(".", "-")
        folder.mkdir()
        (folder / name).symlink_to(precious)
        if name.startswith("results"):
            command = ["batch", graph, "--policy", "dram", "--jobs", "1"]
        elif name.endswith("schema.json"):
            command = ["schema"]
        else:
            command = ["optimize", graph, "--policy", "dram", "--emit", "ttnn-py"]
        assert main([*command, "-o", str(folder)]) == 2, name
        assert "it is a link" in capsys.readouterr().err
        assert precious.read_text() == "old"


def test_arrays_are_written_whole(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.npy") as file:
        np.save(file, np.arange(3), allow_pickle=False)
    assert np.load(tmp_path / "a.npy").tolist() == [0, 1, 2]
