"""Every kernel that is emitted is a right program by the real headers of ttnn, for all five processors of a core."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import every_form
import pytest
import real_headers
from one_core import compile_program
from real_headers import ARCHITECTURES, PROCESSORS, Processor
from sample_kernels import ROWS

from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.source.cases import case_program, read_cases
from optimizer.kernels.tensix.source.text import parse
from optimizer.kernels.tensix.tile_ops import TILE_OPS

FIXTURES = Path(__file__).parents[3] / "fixtures" / "kernels"
EXCERPT = Path(__file__).parents[3] / "optimizer" / "kernels" / "tensix" / "executor" / "kernel_api.tsv"

pytestmark = pytest.mark.skipif(real_headers.lacking() is not None, reason=str(real_headers.lacking()))
needs_compiler = pytest.mark.skipif(
    real_headers.lacking_compiler() is not None, reason=str(real_headers.lacking_compiler())
)

UNITS = [
    pytest.param(processor, arch, wide, id=f"{arch}-{processor.name}{'-wide' if wide else ''}")
    for arch in ARCHITECTURES
    for processor in PROCESSORS
    for wide in ((False, True) if processor.kind == "compute" else (False,))
]


def programs() -> dict[str, Op]:
    """Every form of every op, the fixtures, and the rows of networks."""
    cases = read_cases(json.loads((FIXTURES / "tile_cases.json").read_text(encoding="utf-8")))
    found = dict(every_form.kernels())
    found |= {f"case_{n}": case_program(case) for n, case in enumerate(cases)}
    found |= {f"fixture_{path.stem}": parse(path.read_text(encoding="utf-8")) for path in FIXTURES.glob("*.ttl")}
    return found | {name: build() for name, build in ROWS.items()}


@cache
def kernels() -> tuple[tuple[str, bool, KernelSource], ...]:
    """Name, whether DST is wide, and text of every kernel."""
    wide = {name: bool(program.attr("fp32_dest_acc_en", False)) for name, program in programs().items()}
    return tuple((name, wide[name], k) for name, program in programs().items() for k in compile_program(program))


def of(processor: Processor, wide: bool) -> list[tuple[str, KernelSource]]:
    """What a processor runs; the movers of data do not know DST."""
    movers = processor.kind != "compute"
    return [(name, k) for name, w, k in kernels() if k.kind == processor.kind and (movers or w == wide)]


@pytest.mark.slow
def test_every_form_is_called() -> None:
    texts = {name: k.text for name, _, k in kernels() if k.kind == "compute"}
    for op in TILE_OPS.values():
        for number, form in enumerate(op.forms):
            text = next(t for n, t in texts.items() if n.startswith(f"{op.name}_{number}_"))
            for call in (form.init, form.call):
                template = ", ".join(call.template)
                written = f"{call.function}<{template}>(" if template and "$" not in template else call.function
                assert written in text


@pytest.mark.parametrize(("processor", "arch", "wide"), UNITS)
@pytest.mark.slow
def test_kernels_are_right_by_the_headers(processor: Processor, arch: str, wide: bool, tmp_path: Path) -> None:
    assert real_headers.findings(of(processor, wide), processor, arch, wide, tmp_path) == {}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("processor", "arch", "wide"), UNITS)
def test_kernels_compile_as_on_a_device(processor: Processor, arch: str, wide: bool, tmp_path: Path) -> None:
    assert real_headers.compiled(of(processor, wide), processor, arch, wide, tmp_path) == {}


# -- what it is there to find ------------------------------------------------------------------------------
Change = tuple[str, str, str]
"""Kernel, pattern and what takes its place."""
WRONG_IN_COMPUTE: dict[str, Change] = {
    "unknown function": ("exp_0_bf16", r"exp_tile\(", "exponential_tile("),
    "unknown init": ("exp_0_bf16", r"exp_tile_init", "exp_init"),
    "argument missing": ("add_0_bf16", r"add_tiles\(\w+, ", "add_tiles("),
    "argument too many": ("add_0_bf16", r"add_tiles\(", "add_tiles(0, "),
    "text for a number": ("abs_0_bf16", r"abs_tile\(", 'abs_tile("0" + '),
    "wrong template argument": (
        "reduce_sum_row_0_bf16",
        r"reduce_tile<PoolType::SUM",
        "reduce_tile<BroadcastType::ROW",
    ),
    "unknown enumerator": ("bcast_col_0_bf16", "BroadcastType::COL", "BroadcastType::COLUMN"),
    "template argument too many": (
        "bcast_col_0_bf16",
        r"unary_bcast<BroadcastType::COL",
        "unary_bcast<true, true, true",
    ),
    "format that the LLK refuses": (
        "where_0_bf16",
        r"where_tile<DataFormat::Float16_b",
        "where_tile<DataFormat::Bfp8_b",
    ),
    "deprecated init": ("copy_0_bf16", r"copy_init\(", "copy_tile_init("),
    "deprecated overload": ("copy_dst_0_bf16", r"copy_dest_values<[\w:]+>", "copy_dest_values"),
    "older startup": ("abs_0_bf16", r"compute_kernel_hw_startup\((\w+), \w+,", r"init_sfpu(\1,"),
    "older name": ("matmul_0_bf16", r"matmul_init\(", "mm_init_short("),
}
WRONG_IN_READERS: dict[str, Change] = {
    "deprecated read": ("add_0_bf16", "noc_async_read_page", "noc_async_read_tile"),
    "page missing": ("add_0_bf16", r"noc_async_read_page\([^,]*, ", "noc_async_read_page("),
    "number for an accessor": ("add_0_bf16", r"(noc_async_read_page\([^,]*), \w+,", r"\1, 7,"),
    "unknown barrier": ("add_0_bf16", "noc_async_read_barrier", "noc_async_reads_barrier"),
    "wrong arguments of an accessor": ("add_0_bf16", r"TensorAccessorArgs<0>", "TensorAccessorArgs<int>"),
}
WRONG_IN_WRITERS: dict[str, Change] = {
    "deprecated write": ("add_0_bf16", "noc_async_write_page", "noc_async_write_tile"),
    "unknown function of a buffer": ("add_0_bf16", r"cb_pop_front", "cb_pop_back"),
    "argument missing": ("add_0_bf16", r"cb_wait_front\(\w+, \w+\)", "cb_wait_front(cb_2)"),
}


WRONG = [
    pytest.param(PROCESSORS[1], WRONG_IN_COMPUTE, id="math"),
    pytest.param(PROCESSORS[3], WRONG_IN_READERS, id="reader"),
    pytest.param(PROCESSORS[4], WRONG_IN_WRITERS, id="writer"),
]


@pytest.mark.parametrize(("processor", "wrong"), WRONG)
@pytest.mark.slow
def test_wrong_kernels_are_found(processor: Processor, wrong: dict[str, Change], tmp_path: Path) -> None:
    right = dict(of(processor, wide=False))
    found = real_headers.findings([*right.items(), *changed(right, wrong)], processor, "wormhole", False, tmp_path)
    assert found.keys() == wrong_names(wrong)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("processor", "wrong"), WRONG)
def test_tt_metals_compiler_finds_the_same(processor: Processor, wrong: dict[str, Change], tmp_path: Path) -> None:
    right = dict(of(processor, wide=False))
    found = real_headers.compiled(changed(right, wrong), processor, "wormhole", False, tmp_path)
    assert found.keys() == wrong_names(wrong)


def changed(right: dict[str, KernelSource], wrong: dict[str, Change]) -> list[tuple[str, KernelSource]]:
    """A kernel for every change."""
    made = []
    for what, (name, pattern, other) in zip(sorted(wrong_names(wrong)), wrong.values(), strict=True):
        text = re.sub(pattern, other, right[name].text)
        assert text != right[name].text
        made.append((what, replace(right[name], text=text)))
    return made


def wrong_names(wrong: dict[str, Change]) -> set[str]:
    return {f"wrong_{number:02}" for number in range(len(wrong))}


# -- the excerpt that the executor is made of --------------------------------------------------------------
def test_the_excerpt_is_what_the_headers_declare() -> None:
    with EXCERPT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    declared = cache(lambda header: _plain(real_headers.api_header(header).read_text(encoding="utf-8")))
    strange = [row["name"] for row in rows if _declaration(row) not in declared(row["header"])]
    assert strange == []


def _declaration(row: dict[str, str]) -> str:
    return _plain(f"{row['template']} ALWI void {row['name']}({row['args']})").strip()


def _plain(text: str) -> str:
    """C++ without comments and without spaces that mean nothing."""
    bare = re.sub(r"\s+", " ", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL))
    return re.sub(r"\s*([(),<>=])\s*", r"\1", bare)
