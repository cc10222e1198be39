"""What semaphores, pipes and sums of a given program keep: every refusal, by a change of a right program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from optimizer.errors import GraphError, LimitError, OptionError
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.grid import fold, hardware_grid, place, unfold
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes.fold_grid import fold_grid
from optimizer.kernels.tensix.pipeline import lower
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.ttl import dataflow as flow
from tests.kernels.tensix.pipe_kernels import all_to_all, gather, planes, ring

MATMUL = Path("fixtures/kernels/matmul_multicast.ttl").read_text(encoding="utf-8")
SEND = re.search(r" *%\d+ = ttl.send.*\n *ttl.transfer_wait.*\n", MATMUL)
assert SEND is not None


def refused(text: str, message: str) -> None:
    """GraphError with this message for a program in text."""
    with pytest.raises(GraphError, match=message):
        lower(parse(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dst_core_range = [[1, 2], [0, 1]]", "dst_core_range = [[1, 3], [0, 1]]", "beyond the grid of 2 x 2 cores"),
        ("dst_core_range = [[1, 2], [0, 1]]", "dst_core_range = [[1, 1], [0, 1]]", r"\[first, end\] per dimension"),
        ("dst_core_range = [[1, 2], [0, 1]]", "dst_core_range = [[1, 2]]", "a core of this grid has 2 coordinates"),
        ("dst_core_range = [[1, 2], [0, 1]], ", "", "goes to 'dst_core' or to 'dst_core_range', one of them"),
        ("dst_core_range = [[1, 2], [0, 1]]", "dst_core = [1, 0], src_receives = false", "is about a 'dst_core_range'"),
        (
            "dst_core_range = [[1, 2], [0, 1]]",
            "dst_core_range = [[0, 1], [0, 1]], src_receives = false",
            "goes to its own source only",
        ),
        (
            "dst_core_range = [[1, 2], [0, 1]]",
            "dst_core_range = [[0, 2], [0, 2]], src_receives = false",
            "leaves out .* receives from another one",
        ),
        ("src_core = [0, 0]", "src_core = [0, -1]", "attribute 'src_core' is a core's coordinates"),
        (SEND.group(), "", "0 ttl.send in ttl.if_pipe_src and 1 ttl.receive in ttl.if_pipe_dst"),
        ("{accumulate = true}", "{accumulate = 1}", "attribute 'accumulate' is 1, not a bool"),
        ("grid = [2, 2]", "grid = [2, 2], origin = [1]", "'origin' is column and row of the core"),
        ('{name = "k_blocks"}', '{name = "k blocks"}', "a name has letters, digits"),
    ],
)
def test_pipes_and_loops_in_text_are_checked(old: str, new: str, message: str) -> None:
    assert old in MATMUL
    refused(MATMUL.replace(old, new, 1), message)


def test_what_lacks_its_operands_is_refused_before_pipes_are_looked_at() -> None:
    refused(re.sub(r"ttl\.cb_push\(%\d+\)", "ttl.cb_push", MATMUL, count=1), "has 0 operands, takes 1")
    refused(re.sub(r"ttl\.store\(%\d+, %\d+\)", "ttl.store", MATMUL, count=1), "has 0 operands, takes 2")
    refused(re.sub(r"ttl\.if_pipe_src\(%\d+\)", "ttl.if_pipe_src", MATMUL, count=1), "has 0 operands, takes 1")


def test_cores_that_reach_each_other_are_as_many_as_a_chip_may_have() -> None:
    refused(MATMUL.replace("grid = [2, 2]", "grid = [2000000, 2]"), "a grid of 4000000 cores, 1024 are the most")


def test_a_sum_needs_a_loop_beside_whose_room_it_is_reserved() -> None:
    """Without its loop the store would only add to what nobody has stored."""
    body = re.search(
        r"    ttl\.for\(%\d+\) \{lower = 0, step = 1\} \{\n      \^\(%\d+: index\):\n(.*?)    \}\n", MATMUL, re.S
    )
    assert body is not None
    refused(MATMUL.replace(body.group(), body.group(1), 1), "adds up the rounds of the loop that it stands in")


def test_sums_are_kept_in_bf16_or_f32() -> None:
    changed = re.sub(r"(%\d+ = ttl.bind_cb \{index = 2\} : cb<2x2x)bf16", r"\1bfp8_b", MATMUL)
    changed = re.sub(r"(ttl.cb_(?:reserve|wait)\(%5\) : block<2x2x)bf16", r"\1bfp8_b", changed)
    changed = changed.replace("%2: tensor<4x4xbf16>", "%2: tensor<4x4xbfp8_b>")
    refused(changed, "sums are kept in bf16 or f32")


def test_loops_and_conditions_take_what_they_say() -> None:
    refused(MATMUL.replace("{lower = 0, step = 1}", "{lower = 0, step = 1, upper = 3}", 1), "not both")
    condition = '      ttl.if(%13, %13) {tests = ["<"]} {\n      }\n'
    counter = re.search(r"\^\((%\d+): index\):\n", MATMUL)
    assert counter is not None
    wrong = MATMUL.replace(counter.group(), counter.group() + condition.replace("%13", counter[1]), 1)
    refused(wrong, "attribute 'tests' lists relations: ==, <=")


def test_cores_that_wait_for_each_other_in_a_circle_are_refused() -> None:
    """The reader of every core would send before it receives."""
    text = text_of(ring())
    receive = re.search(r"      ttl\.if_pipe_dst.*?\n      \}\n", text, re.S)
    sent = re.search(r"      ttl\.if_pipe_src.*?\n      \}\n", text, re.S)
    assert receive is not None
    assert sent is not None
    refused(
        text.replace(receive.group(), "").replace(sent.group(), sent.group() + receive.group()),
        "cores wait for each other in a circle: let the other data movement thread receive",
    )


def test_blocks_that_are_received_are_the_only_ones_of_their_buffer() -> None:
    text = text_of(gather())
    buffer = re.search(r"ttl\.if_pipe_dst.*?ttl\.cb_push\((%\d+)\)", text, re.S)
    assert buffer is not None
    extra = f"    %more = ttl.cb_reserve({buffer[1]}) : block<1x1xbf16>\n    ttl.cb_push({buffer[1]})\n"
    head = re.search(r'  ttl\.datamovement_thread @take \{processor = "writer"\} \{\n', text)
    assert head is not None
    refused(text.replace(head.group(), head.group() + extra), "nothing else is pushed there by a core that receives")


def test_a_pipe_to_several_cores_has_the_same_turn_at_each() -> None:
    def pipes() -> list[flow.Pipe]:
        return [flow.Pipe((0, 0), (slice(1, 3), 0)), flow.Pipe((3, 0), (slice(2, 3), 0))]

    refused(text_of(_sending(pipes)), "is not the same one in turn for each")


def test_semaphores_are_as_many_as_a_core_has() -> None:
    """A core that sends through 16 pipes has a semaphore for each, besides the one that says what has arrived."""
    with pytest.raises(LimitError, match="17 semaphores, those of pipes included"):
        lower(_sending(lambda: [flow.Pipe((0, 0), (n, 0)) for n in range(1, 17)], columns=17))


def _sending(pipes: object, columns: int = 4) -> Op:
    """A kernel whose reader sends a block of x through pipes and whose writer receives and keeps it."""

    @ttl.kernel(grid=(columns, 1))
    def made(x: ttl.Tensor) -> tuple[Op, ...]:
        out, into = (ttl.make_circular_buffer_like(x, (1, 1)) for _ in range(2))
        assert callable(pipes)
        net = flow.PipeNet(pipes())

        @ttl.datamovement()
        def read() -> None:
            block = out.reserve()
            ttl.copy(x[0, 0], block).wait()
            net.if_src(lambda pipe: ttl.copy(block, pipe).wait())
            out.push()
            out.wait()
            out.pop()

        @ttl.datamovement()
        def write() -> None:
            def receive(pipe: ttl.PipeEnd) -> None:
                ttl.copy(pipe, into.reserve()).wait()
                into.push()
                ttl.copy(into.wait(), x[0, 0]).wait()
                into.pop()

            net.if_dst(receive)

        return ttl.Program(read, write)(x)

    return made(ttl.Tensor((1, columns)))


# -- grids ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("grid", "cores"),
    [((7,), (7, 1)), ((3, 5), (3, 5)), ((2, 3, 4), (6, 4)), ((8, 8, 8), (8, 64)), ((2, 2, 2, 2), (4, 4))],
)
def test_grids_are_folded_nearest_to_a_square(grid: tuple[int, ...], cores: tuple[int, int]) -> None:
    assert hardware_grid(grid) == cores


@pytest.mark.parametrize("grid", [(7,), (3, 5), (2, 3, 4), (2, 2, 3, 2)])
def test_every_core_of_a_folded_grid_finds_its_coordinates(grid: tuple[int, ...]) -> None:
    columns, rows = hardware_grid(grid)
    found = {tuple(e.evaluate((x, y)) for e in unfold(grid)): (x, y) for y in range(rows) for x in range(columns)}
    assert len(found) == columns * rows
    assert all(place(grid, coordinates) == core for coordinates, core in found.items())
    assert sum(map(len, fold(grid))) == len(grid)


def test_a_range_that_is_no_rectangle_of_cores_is_refused() -> None:
    """A plane of a 2 x 2 x 2 grid is a column of four cores: the first and the third are no rectangle."""
    text = re.sub(r"dst_core = \[1, 0, 0\]", "dst_core_range = [[0, 1], [0, 2], [0, 1]]", text_of(planes()), count=1)
    with pytest.raises(OptionError, match="are no rectangle among the 2 x 4 onto which the grid"):
        fold_grid(parse(text))


def test_an_origin_moves_pipes_and_coordinates() -> None:
    """The core at column 2 and row 3 of the chip is the first one."""
    folded = text_of(fold_grid(all_to_all((2, 3))))
    assert "ttl.create_pipe {dst_core_range = [[2, 6], [3, 4]], src_core = [2, 3]}" in folded
    assert "(d0, d1) -> (d0 + -2 + d1 + -3)" in folded
