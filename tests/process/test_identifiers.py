"""Names from anywhere become our own names: different ones stay different, none leaves its place."""

from __future__ import annotations

import re
import unicodedata

import pytest

from optimizer.kernels.tensix import cpp_text
from optimizer.process.identifiers import FILE_NAMES, LONGEST, LONGEST_COMMENT, Identifiers, printable, resembling

HOSTILE = (
    "", " ", "0", "7up", "_", "__x__", "a\nb", "a\r#include <x>", 'x\n#include "/etc/passwd"\n', "*/ int q; /*", '"',
    "\\", "a\\", "'", "\u2028s_endpgm", "\x85", "\x00", "\x1b[31m", "??/", "//", "/*", "int", "class", "and", "xor",
    "kernel_main", "cb_0", "in0_t_args", "main", "NULL", "EOF", "uint32_t", "TensorAccessor", "exp_tile", "pack_tile",
    "\ud800", "\ufb01", "fi", "\uff41", "a", "\u0430", "..", "../../x", "/etc/passwd", "con", "COM1", "a/b", "A/b",
    "x" * 10_000, "x" * 10_000 + "y", "y" + "x" * 10_000, "%s{}", "$", "a.b", "a-b", "a b",
)  # fmt: skip


@pytest.mark.parametrize("make", [cpp_text.names, lambda: Identifiers(FILE_NAMES)], ids=["cpp", "files"])
def test_different_names_get_different_words(make: object) -> None:
    names: Identifiers = make()  # type: ignore[operator]
    made = [names.of(name) for name in HOSTILE]
    assert len({unicodedata.normalize("NFKC", m) for m in made}) == len(HOSTILE)
    assert made == [names.of(name) for name in HOSTILE]
    assert all(len(m) <= LONGEST + 5 for m in made)


def test_cpp_names_are_identifiers_that_nothing_else_uses() -> None:
    names = cpp_text.names()
    for name in HOSTILE:
        made = names.of(name)
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", made), made
        assert "__" not in made
        assert made not in cpp_text.KEYWORDS | {
            "kernel_main",
            "exp_tile",
            "pack_tile",
            "TensorAccessor",
            "NULL",
            "cb_0",
        }


@pytest.mark.parametrize("name", ["x", "in0_t", "lhs", "TensorX", "v0", "Q", "a_b_c"])
def test_tame_names_stay_as_they_are(name: str) -> None:
    assert cpp_text.names().of(name) == name


@pytest.mark.parametrize("name", ["s_ex6_mixed", "case-1", "1.5", "a+b"])
def test_folders_of_tame_ids_are_the_ids(name: str) -> None:
    assert Identifiers(FILE_NAMES).of(name) == name


@pytest.mark.parametrize(("one", "other"), [("Case", "case"), ("a/b", "a_b"), ("x" * 80, "z" + "x" * 79)])
def test_folders_that_a_file_system_takes_for_one_differ(one: str, other: str) -> None:
    folders = Identifiers(FILE_NAMES)
    assert folders.of(one).lower() != folders.of(other).lower()


@pytest.mark.parametrize("text", HOSTILE)
def test_comments_end_where_their_line_does(text: str) -> None:
    shown = printable(text)
    assert re.fullmatch(r"[ -~]*", shown)
    assert len(shown) <= LONGEST_COMMENT
    assert not any(part in shown for part in ("*/", "/*", "??", "\\"))


def test_resembling() -> None:
    assert resembling("/layer1/conv1/Conv") == "layer1_conv1_Conv"
    assert resembling("12", before_digit="v") == "v12"
