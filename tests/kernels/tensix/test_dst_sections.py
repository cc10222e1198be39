"""Sections of DST and their markers as the verifier sees them: every order but the right one is named."""

from __future__ import annotations

import pytest
from sample_kernels import ROWS, add_2x2
from test_grid_and_regions import PROGRAM

from optimizer.errors import GraphError
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.verify import check, verify


def lowered(stage: str = "insert-inits", unroll: bool = False) -> str:
    """The 2x2 add after a pass, as text."""
    stages: dict[str, Op] = {}
    lower(add_2x2(), KernelOptions(unroll=unroll), stages.__setitem__)
    return text_of(stages[stage])


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_what_passes_make_keeps_the_order(name: str, unroll: bool) -> None:
    stages: dict[str, Op] = {}
    lower(ROWS[name](), KernelOptions(unroll=unroll), stages.__setitem__)
    assert any(op.name == "ttl.tile_regs_acquire" for op in walk(stages["insert-inits"]))
    assert verify(stages["insert-inits"]) == ()


@pytest.mark.parametrize(
    ("line", "instead", "message"),
    [
        ("ttl.tile_regs_acquire", None, "ttl.for|dst.add #0 runs after tile_regs_release"),
        ("ttl.tile_regs_commit", None, r"tile_regs_wait #\d+ follows tile_regs_acquire: tile_regs_commit is due"),
        ("ttl.tile_regs_wait", None, r"dst.pack_block #\d+ packs after tile_regs_commit"),
        ("ttl.tile_regs_release", None, "ends after tile_regs_wait, not after tile_regs_release"),
        ("ttl.tile_regs_wait", "ttl.tile_regs_release", r"tile_regs_release #\d+ follows tile_regs_commit"),
        ("ttl.tile_regs_commit", "ttl.tile_regs_acquire", r"tile_regs_acquire #\d+ follows tile_regs_acquire"),
    ],
)
def test_a_section_out_of_order_is_named(line: str, instead: str | None, message: str) -> None:
    text = lowered().replace(f"    {line}\n", f"    {instead}\n" if instead else "", 1)
    with pytest.raises(GraphError, match=message):
        check(parse(text))


def test_calls_of_the_kernel_api_are_held_to_the_same_order() -> None:
    text = lowered("convert-to-ttkernel").replace("    ttkernel.tile_regs_commit {args = []}\n", "", 1)
    with pytest.raises(GraphError, match=r"ttkernel.tile_regs_wait #\d+ follows tile_regs_acquire"):
        check(parse(text))


def test_a_loop_leaves_the_phase_as_it_found_it() -> None:
    text = lowered().replace("      dst.add(", "      ttl.tile_regs_commit\n      dst.add(", 1)
    with pytest.raises(GraphError, match=r"dst.add #1 runs after tile_regs_commit"):
        check(parse(text))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("      %r = ttl.acquire_dst() : index\n", "", "acquires %r, which is never released"),
        (
            "      %r = ttl.acquire_dst() : index\n",
            "      ttl.release_dst(%r)\n      ttl.release_dst(%r)\n",
            "releases %r, which is not held",
        ),
    ],
)
def test_markers_that_do_not_pair_are_named(before: str, after: str, message: str) -> None:
    marked = PROGRAM.replace("      %3 = ttl.exp", f"{before}      %3 = ttl.exp")
    marked = marked.replace("      ttl.yield(%4)", f"{after}      ttl.yield(%4)")
    with pytest.raises(GraphError, match=message):
        check(parse(marked))
