"""Names, words and comments of strangers in GPU programs: refused, or one word or comment of the assembly."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gfx942.expr.emitter import floor_div, mod
from gfx942.expr.errors import ExpressionError

from optimizer.errors import FormatError, InputError, LimitError
from optimizer.kernels.amdgpu.emit import kernel_text
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.pipeline import build
from optimizer.kernels.amdgpu.program_json import read_cases, read_program
from optimizer.kernels.amdgpu.text import instruction_text, parse, parse_operand, text_of
from optimizer.kernels.amdgpu.witness.errors import TextError
from optimizer.kernels.amdgpu.witness.interpreter.metadata import parse_metadata
from optimizer.kernels.amdgpu.witness.interpreter.parse import parse_program, strip_comments

HOSTILE = (
    "", " ", "a b", "a\nb", '\n.incbin "/etc/passwd"\n', "a\r.set x, 1", "\u2028s_endpgm", "\x85s_endpgm",
    "\x0cs_endpgm",
    "\x00", "; x", "// x", "/* x", "*/", '"', "\\", "a\\", "!!python/object:x", "&a", "*a", "- .name: x", "...",
    "\ud800",
    "\u00e9", "\uff41", "k:", "v0", "x" * 10_000,
)  # fmt: skip
WORD = re.compile(r"[A-Za-z_.$][\w.$]{0,199}", re.ASCII)


def document(**changes: Any) -> dict[str, Any]:
    mov = {"name": "v_mov_b32", "defs": ["v1"], "uses": ["v0"]}
    record = {"name": "k", "instructions": [mov, {"name": "s_branch", "target": "l"}, {"label": "l"}]}
    return {**record, **changes}


TAME = build(read_program(document())).text


def built(record: dict[str, Any]) -> str | None:
    """The text; None if the program is refused."""
    try:
        return build(read_program(record)).text
    except InputError:
        return None


@pytest.mark.parametrize("word", HOSTILE, ids=lambda word: ascii(word[:20]))
def test_comments_stay_comments(word: str) -> None:
    for name in ("v_mov_b32", "_comment"):
        item = {"name": name, "comment": word}
        if name == "v_mov_b32":
            item |= {"defs": ["v1"], "uses": ["v0"]}  # type: ignore[dict-item]
        body = [item, *document()["instructions"][name == "v_mov_b32" :]]
        text = built(document(instructions=body))
        if text is not None:
            code = [line.partition(";")[0].rstrip() for line in text.split("\n")]
            assert [c for c in code if c] == [c for c in TAME.split("\n") if c]
            assert text.isascii()


@pytest.mark.parametrize("word", HOSTILE, ids=lambda word: ascii(word[:20]))
def test_names_are_words_or_refused(word: str) -> None:
    label = [{"name": "s_branch", "target": word}, {"label": word}]
    places = {
        "kernel": document(name=word),
        "label": document(instructions=label),
        "target": document(instructions=[{**document()["instructions"][0], "target": word}]),
        "modifier": document(instructions=[{**document()["instructions"][0], "modifiers": [word]}]),
        "argument": document(launch={"arguments": [{"name": word}]}),
        "loop": document(
            instructions=[
                {"name": "s_mov_b32", "defs": ["s5"], "uses": ["#0"]},
                {"name": "_loop_begin", "uses": ["s5", "#4"], "target": word},
                {"name": "_loop_end", "uses": ["s5", "#1"], "target": word},
            ]
        ),
    }
    for place, record in places.items():
        text = built(record)
        assert text is None or WORD.fullmatch(word), place


def test_a_target_of_what_does_not_branch_is_refused() -> None:
    with pytest.raises(InputError, match="v_mov_b32 cannot have the target"):
        instruction_text(Instruction("v_mov_b32", (), (), target="l"))


@pytest.mark.parametrize("comment", ["a\nb", "a\x85.kernel x", "\u2028", "\\n", "\\u{41}", "a\r\n", "\x00"])
def test_comments_of_the_textual_form_parse_back(comment: str) -> None:
    program = Program((Instruction("_raw_asm", comment=f"s_nop 0{comment}s_nop 0"),))
    text = text_of(program)
    assert len(text.splitlines()) == 2
    assert parse(text) == program


@pytest.mark.parametrize(
    "word",
    [
        "kv0..+1000000000000",
        "v[0:99999999]",
        "kv99999999999",
        "kv0..+2@99999",
        "s2000",
        "1.5" + "0" * 30,
        "1" + "0" * 39 + ".0",
    ],
)
def test_operands_have_limits(word: str) -> None:
    if word.startswith("1.5"):
        parse_operand(word)
        return
    with pytest.raises((LimitError, FormatError)):
        parse_operand(word)


@pytest.mark.parametrize("word", ["kv\u0663", "v0\n", "#\u0663", "offset:\u0663"])
def test_digits_are_ascii(word: str) -> None:
    with pytest.raises(FormatError):
        parse_operand(word)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"max_vgprs": "many"}, "max_vgprs"),
        ({"max_vgprs": True}, "max_vgprs"),
        ({"max_vgprs": 10**12}, "max_vgprs"),
        ({"reserved_vgprs": 3}, "reserved_vgprs"),
        ({"reserved_sgprs": [True]}, r"reserved_sgprs\[0\]"),
        ({"reserved_vgprs": [10**12]}, r"reserved_vgprs\[0\]"),
        ({"precolored": [1]}, "precolored"),
        ({"precolored": {"kv0": True}}, "precolored.kv0"),
        ({"precolored": {"v0": 1}}, "precolored.v0"),
        ({"instructions": {}}, "instructions"),
        ({"instructions": [{"name": 3}]}, r"instructions\[0\].name"),
        ({"instructions": [{"name": "s_nop", "uses": "#0"}]}, r"instructions\[0\].uses"),
        ({"instructions": [{"name": "s_nop", "uses": [0]}]}, r"instructions\[0\].uses\[0\]"),
        ({"instructions": [{"label": ["l"]}]}, r"instructions\[0\].label"),
        ({"instructions": [{"name": "s_nop", "comment": 3}]}, r"instructions\[0\].comment"),
        ({"launch": {"workgroup": [64, 1]}}, "launch.workgroup"),
        ({"launch": {"what": 1}}, "launch: unknown field"),
        ({"launch": {"arguments": [{"name": 3}]}}, r"launch.arguments\[0\].name"),
        ({"name": ["k"]}, "name"),
    ],
)
def test_wrong_types_are_refused_with_their_place(change: dict[str, Any], place: str) -> None:
    cases = read_cases({"cases": [{"id": "x", "program": document(**change)}]})
    with pytest.raises(InputError, match=rf"cases\[0\].program.{place}"):
        _ = cases[0].program


def test_two_cases_of_one_id_are_refused() -> None:
    with pytest.raises(FormatError, match="that of another case"):
        read_cases([{"id": "x", "program": {}}, {"id": "x", "program": {}}])


def test_operands_more_than_an_instruction_takes_are_refused() -> None:
    extra = [{"name": "v_or3_b32", "defs": ["v1"], "uses": ["v0", "v0", "v0", "#99"]}]
    with pytest.raises(InputError, match="takes 3 operands, not 4"):
        build(read_program(document(instructions=extra)))


def test_argument_names_are_checked_where_the_metadata_is_written() -> None:
    program = read_program(document(launch={"arguments": [{"name": 'x"\n  - .name: y'}]}))
    with pytest.raises(InputError, match="cannot be an argument's name"):
        kernel_text(program)


@pytest.mark.parametrize("make", [lambda text: floor_div(text, 2), lambda text: mod(text, 2)])
def test_text_is_no_expression(make: Any, tmp_path: Any) -> None:
    """SymPy evaluates text as Python."""
    flag = tmp_path / "flag"
    with pytest.raises(ExpressionError, match="a str is no expression"):
        make(f"open({str(flag)!r}, 'w')")
    assert not flag.exists()


# -- assembly that is read -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "s_waitcnt vmcnt(zz)",
        ".amdhsa_kernel k\n.amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 8\n.amdhsa_accum_offset 8\n"
        ".amdhsa_kernarg_size 999999999999\n.end_amdhsa_kernel",
        ".amdgpu_metadata\na: &a [1]\nb: *a\n.end_amdgpu_metadata",
        f".amdgpu_metadata\n{'[' * 1500}\n.end_amdgpu_metadata",
        ".amdgpu_metadata\na: 2001-99-99\n.end_amdgpu_metadata",
    ],
)
def test_assembly_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        parse_program(text)


def test_metadata_without_aliases_is_read() -> None:
    found = parse_metadata([(1, "amdhsa.kernels:"), (2, '  - .name: !str "k"')], 1)
    assert [m.name for m in found] == ["k"]


def test_comments_are_taken_out() -> None:
    text = "a /* x\ny */ b // c\n; d\n/* e */ f /* g"
    assert [(n, line.split()) for n, line in strip_comments(text)] == [(1, ["a"]), (2, ["b"]), (4, ["f", "/*", "g"])]
