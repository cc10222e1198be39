"""The kernel IR prints, parses back, and is refused with its place when it is ill-formed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from optimizer.errors import FormatError, GraphError
from optimizer.kernels.tensix.pipeline import KernelOptions, lower, passes
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.verify import check, verify

CASES = read_cases(json.loads(Path("fixtures/kernels/tile_cases.json").read_text(encoding="utf-8")))
PROGRAM = """ttl.program @add {grid = [1, 1]} {
  %0 = ttl.bind_cb {index = 0} : cb<2x2xbf16, 2>
  %1 = ttl.bind_cb {index = 1} : cb<2x2xbf16, 2>
  ttl.compute_thread @math {
    %2 = ttl.cb_wait(%0) : block<2x2xbf16>
    %3 = ttl.cb_reserve(%1) : block<2x2xbf16>
    %4 = ttl.add(%2, %2) : block<2x2xbf16>
    ttl.store(%4, %3)
    ttl.cb_pop(%0)
    ttl.cb_push(%1)
  }
}
"""


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_every_stage_prints_and_parses_back(case: object) -> None:
    texts: dict[str, str] = {}
    lower(case_program(case), KernelOptions(), lambda name, op: texts.__setitem__(name, text_of(op)))  # type: ignore[arg-type]
    assert list(texts) == ["initial", *(p.name for p in passes(KernelOptions()))]
    for text in texts.values():
        assert text_of(parse(text)) == text


def test_a_well_formed_program_has_no_findings() -> None:
    assert verify(parse(PROGRAM)) == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    ttl.cb_push(%1)\n", "", "ttl.cb_reserve of %1 without ttl.cb_push"),
        ("    ttl.cb_pop(%0)\n", "", "ttl.cb_wait of %0 without ttl.cb_pop"),
        ("ttl.cb_pop(%0)", "ttl.cb_pop(%0)\n    ttl.cb_pop(%0)", "ttl.cb_pop of %0 without ttl.cb_wait"),
        ("index = 1", "index = 0", "circular buffer index 0 is bound twice"),
        ("index = 1", "index = 32", "circular buffer index 32 is not below 32"),
        ("ttl.add(%2, %2)", "ttl.add(%2)", "has 1 operands, takes 2"),
        ("ttl.add(%2, %2) : block<2x2xbf16>", "ttl.add(%2, %2) : block<2x3xbf16>", "gives 2x2 tiles"),
        ("ttl.add(%2, %2) : block<2x2xbf16>", "ttl.add(%2, %2) : block<2x2xf32>", "mixes element types"),
        ("ttl.add(", "ttl.frobnicate(", "unknown kernel op 'ttl.frobnicate'"),
        (
            "ttl.compute_thread @math",
            'ttl.datamovement_thread @math {processor = "reader"}',
            "not in a datamovement_thread",
        ),
        ("%4 = ttl.add", "%3 = ttl.add", "%3 is defined twice"),
    ],
)
def test_findings_say_what_is_wrong(old: str, new: str, message: str) -> None:
    found = verify(
        parse(
            PROGRAM.replace(old, new).replace(
                "ttl.store(%4", "ttl.store(%3" if "%3 = ttl.add" in new else "ttl.store(%4"
            )
        )
    )
    assert any(message in str(f) for f in found), [str(f) for f in found]
    assert all(f.place.startswith("ttl.program @add") for f in found)


def test_check_raises_with_the_place() -> None:
    with pytest.raises(GraphError, match=r"ttl.compute_thread @math / ttl.add #2"):
        check(parse(PROGRAM.replace("ttl.add(%2, %2)", "ttl.add(%2)")))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (PROGRAM.replace("%2, %2", "%2, %9"), "line 7, column 22"),
        (PROGRAM.replace("block<2x2xbf16>", "block<2xbf16>", 1), "line 5, column"),
        (PROGRAM.rstrip().rstrip("}"), "line 12"),
        ("ttl.program @x !", "line 1, column 16"),
        ("ttl.program @x {a = bf16}", "line 1, column 21"),
        ("ttl.program @x {a = {b = 1}}", "line 1, column 21"),
    ],
)
def test_unreadable_text_is_refused_with_line_and_column(text: str, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert str(caught.value.node).startswith(place)


def test_an_attribute_that_is_no_value_is_told_what_may_be_one() -> None:
    with pytest.raises(FormatError, match=r"a number, .* or a !type of tiles is due, found 'bf16'"):
        parse("ttl.program @x {a = bf16}")


def test_half_is_refused_with_its_reason() -> None:
    with pytest.raises(FormatError, match=r"is no type: no tensor of ttnn holds f16; bf16 has its size"):
        parse(PROGRAM.replace("bf16", "f16"))
