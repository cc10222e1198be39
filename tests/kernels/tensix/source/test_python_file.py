"""Kernels in a Python file of the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from one_core import compile_program

from optimizer.errors import FormatError
from optimizer.kernels.tensix.source.python_file import read_kernels

KERNEL = """
from dataclasses import dataclass

from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ttl import Tensor


@dataclass
class Plan:
    power: int = 2


@ttl.kernel(grid=(2, 1))
def squares(x: Tensor = Tensor((1, 2)), y: Tensor = Tensor((1, 2))):
    x_cb, y_cb = (ttl.make_circular_buffer_like(t, (1, 1)) for t in (x, y))

    @ttl.compute()
    def math():
        y_cb.reserve().store(x_cb.wait() ** Plan().power)
        x_cb.pop()
        y_cb.push()

    @ttl.datamovement()
    def read():
        row, column = ttl.grid_slice(x, (1, 1))
        ttl.copy(x[row, column], x_cb.reserve()).wait()
        x_cb.push()

    @ttl.datamovement()
    def write():
        row, column = ttl.grid_slice(y, (1, 1))
        ttl.copy(y_cb.wait(), y[row, column]).wait()
        y_cb.pop()

    return ttl.Program(math, read, write)(x, y)


wide = squares(Tensor((1, 4)), Tensor((1, 4)))
"""
NO_DEFAULTS = KERNEL.replace(" = Tensor((1, 2))", "")


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_functions_with_tensors_and_programs_of_the_module_are_its_kernels(tmp_path: Path) -> None:
    found = dict(read_kernels(written(tmp_path, KERNEL)))
    assert list(found) == ["squares", "wide"]
    assert [str(v.type) for v in found["wide"].body.args] == ["tensor<1x4xbf16>"] * 2
    assert [k.kind for k in compile_program(found["squares"])] == ["compute", "reader", "writer"]


def test_a_function_that_was_called_needs_no_tensors_of_its_own(tmp_path: Path) -> None:
    assert [name for name, _ in read_kernels(written(tmp_path, NO_DEFAULTS))] == ["wide"]


def test_a_file_may_import_what_lies_beside_it_and_prints_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shapes_of_mine.py").write_text("SHAPE = (1, 4)\n", encoding="utf-8")
    text = f"from shapes_of_mine import SHAPE\nprint('made')\n{KERNEL}".replace("(1, 4)", "SHAPE")
    assert [name for name, _ in read_kernels(written(tmp_path, text))] == ["squares", "wide"]
    assert capsys.readouterr() == ("", "made\n")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\ny = (", 2, "no Python: '\\(' was never closed"),
        ("import nowhere_at_all", 1, "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (KERNEL.replace("** Plan().power", "** 'a'"), 19, "a block is combined with a block or a number, got a str"),
        (
            KERNEL.replace("return ttl.Program(math, read, write)(x, y)", "return ttl.Program(math)(y, x)"),
            35,
            "own tensors",
        ),
        (KERNEL + "\n1 / 0\n", 40, "ZeroDivisionError: division by zero"),
        (KERNEL + "\nraise SystemExit\n", 40, "SystemExit"),
        (NO_DEFAULTS.rpartition("wide =")[0], 13, "kernel 'squares' has no tensors"),
    ],
)
def test_what_goes_wrong_names_the_line(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FormatError, match=message) as error:
        read_kernels(path)
    assert error.value.node == f"{path}:{line}"


def test_a_file_without_kernels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no kernel: a function with @kernel is due"):
        read_kernels(written(tmp_path, "x = 1\n"))
