"""The surroundings of a mock device: nobody else's files are touched, no home is needed, none is made."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.opmodel.ttmetal import environment, location
from optimizer.opmodel.ttmetal.environment import EnvironmentProblem

QUERY = (
    '{"op": "relu", "attrs": {}, "inputs": [{"shape": [64, 64], "dtype": "bf16", "layout": "tile", '
    '"memory_layout": "interleaved", "buffer": "dram"}]}\n'
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A folder like the ttnn package's."""
    root = tmp_path / "wheel"
    for name in ("tt_metal/pre-compiled/1/brisc", "runtime/hw", "runtime/sfpi", "__pycache__"):
        (root / name).mkdir(parents=True)
    comment = b"..GCC: (tenstorrent/sfpi:7.1.0) 15.1.0\0.."
    (root / "tt_metal/pre-compiled/1/brisc/brisc.elf").write_bytes(comment)
    (root / "core.py").write_text("")
    return root


def snapshot(folder: Path) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.lstat().st_mtime_ns for p in sorted(folder.rglob("*"))}


def test_the_overlay_is_links_and_a_compiler_of_our_own(wheel: Path, tmp_path: Path) -> None:
    before = snapshot(wheel)
    overlay = environment.make_overlay(tmp_path / "overlay", wheel)
    environment.make_overlay(tmp_path / "overlay", wheel)  # again is harmless
    assert snapshot(wheel) == before
    assert (overlay / "core.py").resolve() == wheel / "core.py"
    assert (overlay / "runtime/hw").resolve() == wheel / "runtime/hw"
    assert not (overlay / "runtime/sfpi").is_symlink()
    assert not (overlay / "__pycache__").exists()


def test_the_compiler_answers_and_links(wheel: Path, tmp_path: Path) -> None:
    compiler = environment.make_overlay(tmp_path / "overlay", wheel) / "runtime/sfpi/compiler/bin/riscv-tt-elf-g++"
    run = lambda *words: subprocess.run([compiler, *words], capture_output=True, text=True, check=True).stdout  # noqa: E731
    assert run("--version").startswith("riscv-tt-elf-g++ (tenstorrent/sfpi:7.1.0) 15.1.0\n")
    out, deps = tmp_path / "k.o", tmp_path / "k.d"
    run("-MF", str(deps), "-c", "-o", str(out), "k.cc")
    assert (out.read_bytes(), deps.read_text()) == (b"", f"{out}:\n")
    run("-o", str(tmp_path / "k.elf"), str(out))
    assert (tmp_path / "k.elf").read_bytes() == environment.smallest_elf()


def test_a_wheel_without_firmware_is_refused(wheel: Path, tmp_path: Path) -> None:
    (wheel / "tt_metal/pre-compiled/1/brisc/brisc.elf").unlink()
    with pytest.raises(EnvironmentProblem, match="no compiled firmware"):
        environment.make_overlay(tmp_path / "overlay", wheel)


def test_the_elf_is_one_segment_at_the_entry_and_a_relocation() -> None:
    data = environment.smallest_elf()
    kind, machine, _, entry, at, table, *_ = struct.unpack_from("<HHIIIIIHHHHHH", data, 16)
    assert (data[:7], kind, machine) == (b"\x7fELF\x01\x01\x01", 2, 243)
    segment, offset, address, _, size, memory, flags, _ = struct.unpack_from("<8I", data, at)
    assert (segment, address, size, memory, flags) == (1, entry, 16, 16, 5)
    headers = [struct.unpack_from("<10I", data, table + 40 * i) for i in range(6)]
    assert len(data) == table + 6 * 40
    names = headers[5]
    text = {data[names[4] + h[0] :].partition(b"\0")[0]: h for h in headers}
    assert text[b".text"][3:6] == (entry, offset, 16)
    relocations = text[b".rela.text"]
    assert relocations[7] == 1  # against section 1, .text
    assert struct.unpack_from("<IIi", data, relocations[4])[1] & 0xFF == 0  # R_RISCV_NONE


def test_every_preset_board_can_be_opened(project_root: Path) -> None:
    presets = {path.stem for path in (project_root / "optimizer/boards").glob("*.json")}
    assert presets <= set(environment.boards())


class TestCacheFolder:
    def test_xdg_comes_first(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert environment.cache_folder() == tmp_path / "xdg" / "ttopt"

    def test_then_the_home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert environment.cache_folder() == tmp_path / ".cache" / "ttopt"

    @pytest.mark.parametrize("home", [None, "", "missing", "relative"])
    def test_without_a_home_a_private_folder(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None
    ) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.delenv("HOME", raising=False)
        if home is not None:
            monkeypatch.setenv("HOME", str(tmp_path / home) if home == "missing" else home)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        folder = environment.cache_folder()
        assert folder == tmp_path / f"ttopt-{os.getuid()}"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not (tmp_path / "missing").exists()

    def test_a_private_folder_that_others_may_write_is_not_used(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        (tmp_path / f"ttopt-{os.getuid()}").mkdir()
        (tmp_path / f"ttopt-{os.getuid()}").chmod(0o777)
        with pytest.raises(EnvironmentProblem, match="remove it"):
            environment.cache_folder()


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_a_mock_device_opens_without_a_home_and_leaves_nothing_behind(
    needs_ttnn: None, tmp_path: Path, home: str | None
) -> None:
    here, scratch = tmp_path / "here", tmp_path / "scratch"
    here.mkdir()
    scratch.mkdir()
    rows = tmp_path / "rows.jsonl"
    rows.write_text(QUERY)
    surroundings = {"TMPDIR": str(scratch), "TT_METAL_SLOW_DISPATCH_MODE": "1", "TT_METAL_HOME": "/nowhere"}
    wheel = environment.wheel_folder()
    done = subprocess.run(
        [sys.executable, "-B", "-m", "optimizer.cli", "opmodel", "query", "--opmodel", "ttmetal", rows],
        cwd=here, env=surroundings if home is None else {**surroundings, "HOME": home},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert '"valid": true' in done.stdout
    assert list(here.iterdir()) == []
    assert [p.name for p in scratch.iterdir()] == [f"ttopt-{os.getuid()}"]
    assert not (wheel / "runtime" / "sfpi").exists()
    assert not Path("/nonexistent").exists()


def test_the_version_text_is_the_wheels_own(needs_ttnn: None) -> None:
    assert re.match(
        r"riscv-tt-elf-g\+\+ \(tenstorrent/sfpi:\S+\) \d+", environment.version_text(environment.wheel_folder())
    )


class TestLocation:
    @pytest.mark.usefixtures("needs_ttnn")
    def test_another_python_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(location.PYTHON_VARIABLE, sys.executable)
        assert location.find().python == sys.executable

    @pytest.mark.parametrize(
        ("python", "message"), [("/no/such/python", "cannot be run"), ("/bin/false", "has no usable ttnn")]
    )
    def test_one_that_cannot_answer_is_named(self, monkeypatch: pytest.MonkeyPatch, python: str, message: str) -> None:
        monkeypatch.setenv(location.PYTHON_VARIABLE, python)
        with pytest.raises(Exception, match=f"{python} {message}"):
            location.find()

    def test_the_kind_of_device_is_one_of_three(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(location.DEVICE_VARIABLE, "imaginary")
        with pytest.raises(Exception, match="one of mock, sim, real"):
            location.device_source()


def test_a_board_without_a_description_is_refused_with_those_that_have_one(needs_ttnn: None, n150: DeviceSpec) -> None:
    with pytest.raises(EnvironmentProblem, match="n150, n300, p100, p150"):
        environment.prepare_mock("mine", "0")
