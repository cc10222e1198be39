"""Names and values of strangers in tile kernels: the C++ says the same as with tame names, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from one_core import compile_program, execute

from optimizer.errors import FormatError, GraphError, LimitError, StateError
from optimizer.kernels.tensix import cpp_text
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import COMPILE, has_compiler
from optimizer.kernels.tensix.ir import Op, Region, Value, attributes
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.source.text import parse, text_of

LOOPED = Path("fixtures/kernels/looped.ttl").read_text(encoding="utf-8")
HOSTILE = (
    "", "0", "__x__", "a\nb", 'x\n#include "/etc/passwd"\nint q', "*/ int q; /*", '"', "a\\", "\u2028", "??/", "int",
    "class", "kernel_main", "cb_0", "r_0", "c_0", "tile_0", "b_t_args", "b_t", "reader_zero", "uint32_t", "exp_tile",
    "get_tile_size", "NULL", "\ufb01", "\uff41", "x" * 9_000, "1); system(\"id\"); (1", "${x}", "{0}",
)  # fmt: skip
TOKEN = re.compile(r"//[^\n]*|[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|\S")


def record(a: str, b: str, out: str, inner: str, name: str = "case") -> dict[str, Any]:
    ops = [
        {"name": inner, "op": "exp", "args": [a]},
        {"name": f"{inner}2", "op": "add", "args": [inner, b]},
    ]
    return {"id": name, "inputs": [a, b], "outputs": [out], "ops": ops, "yield": [f"{inner}2"], "block": [1, 2]}


def texts(case: dict[str, Any]) -> dict[str, str]:
    program = case_program(read_cases({"cases": [case]})[0])
    assert text_of(parse(text_of(program))) == text_of(program)
    return {kernel.kind: kernel.text for kernel in compile_program(program)}


def renamed(one: str, other: str) -> dict[str, str]:
    """How identifiers of one text are called in the other; fails if anything else differs."""
    a, b = TOKEN.findall(one), TOKEN.findall(other)
    assert len(a) == len(b)
    found: dict[str, str] = {}
    for x, y in zip(a, b, strict=True):
        if x != y:
            assert re.fullmatch(r"[A-Za-z_]\w*", x), x
            assert re.fullmatch(r"[A-Za-z_]\w*", y), y
            assert found.setdefault(x, y) == y
    assert len(set(found.values())) == len(found)
    return found


TAME = texts(record("a", "b", "o", "v"))


@pytest.mark.parametrize("place", range(5), ids=["input", "other-input", "output", "value", "id"])
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:20]))
def test_hostile_names_give_the_tokens_of_tame_ones(name: str, place: int) -> None:
    names = ["a", "b", "o", "v", "case"]
    names[place] = name
    for kind, text in texts(record(*names)).items():
        found = renamed(TAME[kind], text)
        assert all(re.fullmatch(r"[abo]_t(_args)?|[rc]_\d", x) for x in found)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_kernels_of_hostile_names_compile_and_run() -> None:
    names = [n for n in HOSTILE if "passwd" not in n][:12] + [n for n in HOSTILE if "passwd" in n]
    ops: list[dict[str, Any]] = [{"name": "v0", "op": "add", "args": names[:2]}]
    ops += [{"name": f"v{k}", "op": "add", "args": [f"v{k - 1}", n]} for k, n in enumerate(names[2:], 1)]
    case = {"id": "c", "inputs": names, "outputs": [HOSTILE[4]], "ops": ops, "yield": [ops[-1]["name"]]}
    program = lower(case_program(read_cases({"cases": [case]})[0]))
    done = execute(program, emit_program(program), {})
    assert all(values.sum() == 0 for values in done.tensors.values())


# -- programs ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('processor = "reader"', 'processor = "../../x"', "'reader' or 'writer'"),
        ('processor = "reader"', 'processor = "writer"', "two threads of one kind"),
        (
            "ttl.cb_pop(%w_cb)",
            'ttkernel.f(%w_cb) {args = ["#0); system(1"]}\nttl.cb_pop(%w_cb)',
            "is what a pass makes",
        ),
        ("ttl.cb_pop(%w_cb)", "dst.add(%w_block)\nttl.cb_pop(%w_cb)", "is what a pass makes"),
        ("@looped {", '{sym_name = "a\\n#include <x>", ', "a name has letters"),
        ("@looped {", "@looped {unroll = 3, ", "has no attribute 'unroll'"),
        ("lower = 0", "lower = true", "attribute 'lower' is True, not a int"),
        ("high = 6.0", "high = true", "not a number"),
        ("high = 6.0", 'high = "x"', "not a number"),
        ("index = 0", "index = 1.0", "attribute 'index' is 1.0, not a int"),
        ("d1 floordiv 4", "d1 floordiv 0", "divides by 0"),
        ("grid = [8, 8]", "grid = []", "a grid has 1 to 8 dimensions"),
        ("grid = [8, 8]", 'grid = ["x"]', "no list of whole numbers"),
        ("ttl.store(%e, %room)", "ttl.store(%e, %x_block)", "not reserved"),
        ("tensor<64x64xf32>", "tensor<64x64xbf16>", "changes the element type"),
        ("cb<2x4xbf16, 2>", "cb<2x4xu32, 2>", "is of u32"),
    ],
)
def test_programs_that_passes_do_not_expect_are_refused(old: str, new: str, message: str) -> None:
    assert old in LOOPED
    with pytest.raises(GraphError, match=message):
        compile_program(parse(LOOPED.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cb<2x4xbf16, 2>", "cb<99999x99999xbf16, 2>"),
        ("upper = 4", "upper = 4294967296"),
        ("d0 * 8 + d1 * 2", "d0" + " + d1" * 600),
        ("d0 * 8 + d1 * 2", "(" * 60 + "d0" + ")" * 60),
        ("grid = [8, 8]", f"grid = {'[' * 60}"),
        ("grid = [8, 8]", "grid = [99999999999999999999]"),
    ],
)
def test_numbers_and_nesting_have_limits(old: str, new: str) -> None:
    with pytest.raises(LimitError):
        compile_program(parse(LOOPED.replace(old, new)))


def test_strings_stay_on_their_line() -> None:
    op = Op("ttl.x", attrs=attributes({"s": 'a\n"\\\u2028#'}))
    assert text_of(op).count("\n") == 1
    assert parse(text_of(op)) == op


# -- values ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("value", ["1", True, 1.0, None])
def test_integers_are_integers(value: object) -> None:
    with pytest.raises(StateError):
        cpp_text.integer(value)


@pytest.mark.parametrize("value", [1.5, -0.0, 1e30, 1e39, -1e300, float("inf"), float("-inf"), float("nan"), 1e-320, 3])
def test_floats_have_literals(value: float, tmp_path: Path) -> None:
    text = cpp_text.floating(value)
    assert cpp_text.tokens(text) == text
    (tmp_path / "x.cpp").write_text(f"constexpr float x = {text}; constexpr unsigned b = {cpp_text.float_bits(value)};")
    if has_compiler():
        subprocess.run([*COMPILE, "-w", "-fsyntax-only", "x.cpp"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("text", ['"x"', "a;b", "a{", "#include", "a\nb", "x\\", "[0]", 3])
def test_arguments_of_calls_are_tokens(text: object) -> None:
    with pytest.raises(StateError):
        cpp_text.tokens(text)


def test_only_functions_of_the_kernel_api_are_called() -> None:
    thread = Op("ttl.compute_thread", regions=(Region((), (Op("ttkernel.system", attrs=attributes({"args": ()})),)),))
    named = Op(thread.name, (), (), attributes({"sym_name": "m"}), thread.regions)
    program = Op("ttl.program", regions=(Region((), (named,)),))
    with pytest.raises(StateError, match="no function of the kernel API"):
        emit_program(program)


def test_names_of_values_are_checked_however_they_were_made() -> None:
    program = parse(LOOPED)
    body = program.body
    bad = Region((Value("x\n", body.args[0].type), *body.args[1:]), body.ops)
    with pytest.raises(GraphError, match="a name has letters"):
        lower(Op(program.name, (), (), program.attrs, (bad,)), KernelOptions())


# -- documents ----------------------------------------------------------------------------------------------
GOOD = record("a", "b", "o", "v")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"inputs": "ab"}, "inputs"),
        ({"inputs": ["a", 3]}, r"inputs\[1\]"),
        ({"inputs": ["a", "a"]}, "inputs"),
        ({"outputs": []}, "outputs"),
        ({"ops": {}}, "ops"),
        ({"ops": [3]}, r"ops\[0\]"),
        ({"ops": [{"name": "v", "op": "exp", "args": "a"}]}, r"ops\[0\].args"),
        ({"ops": [{"name": ["v"], "op": "exp", "args": ["a"]}]}, r"ops\[0\].name"),
        ({"ops": [{"name": "v", "op": "exp", "args": [["a"]]}]}, r"ops\[0\].args\[0\]"),
        ({"ops": [{"name": "v", "op": "exp", "args": ["a"], "more": 1}]}, r"ops\[0\]: unknown field"),
        ({"ops": [{"name": "v", "op": "fill", "args": [], "attrs": {"value": "1"}}]}, r"ops\[0\].attrs.value"),
        ({"ops": [{"name": "v", "op": "fill", "args": [], "attrs": {"value": True}}]}, r"ops\[0\].attrs.value"),
        ({"ops": [{"name": "v", "op": "fill", "args": [], "attrs": {"value": 1e39}}]}, r"ops\[0\].attrs.value"),
        ({"block": [True, 1]}, r"block\[0\]"),
        ({"block": [1.0, 1]}, r"block\[0\]"),
        ({"block": [10**12, 1]}, r"block\[0\]"),
        ({"capacity": 4.0}, "capacity"),
        ({"dtype": ["bf16"]}, "dtype"),
        ({"id": 3}, "id"),
        ({"yield": None}, "yield"),
    ],
)
def test_wrong_types_are_refused_with_their_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(FormatError, match=rf"cases\[1\].*{place}"):
        read_cases({"cases": [GOOD, {**GOOD, "id": "other", **change}]})


def test_two_cases_of_one_id_are_refused() -> None:
    with pytest.raises(FormatError, match=r"cases\[1\]: the id 'case' is that of cases\[0\]"):
        read_cases([GOOD, GOOD])


def test_cases_have_limits() -> None:
    many = [{"name": f"v{k}", "op": "exp", "args": ["a"]} for k in range(3000)]
    with pytest.raises(LimitError, match=r"cases\[0\].ops"):
        read_cases([{**GOOD, "ops": many}])
    with pytest.raises(LimitError, match=r"cases\[0\].block"):
        read_cases([{**GOOD, "block": [10**6, 10**6]}])
