"""Element types and modes that a user may ask for: tt-metal takes every call of the plans, at the first try."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize

pytestmark = pytest.mark.usefixtures("needs_ttnn")

SIDE, CHANNELS = 16, 64
WINDOW = {"batch_size": 1, "input_height": SIDE, "input_width": SIDE, "in_channels": CHANNELS, "out_channels": 32}


def upsampled(mode: str) -> Graph:
    b = GraphBuilder("upsampled")
    x = b.op("ttnn.relu", b.input("x", (1, 1, SIDE * SIDE, CHANNELS)))
    image = b.op("ttnn.reshape", x, shape=(1, SIDE, SIDE, CHANNELS))
    rows = b.op("ttnn.to_layout", image, layout="row_major")
    return b.finish(b.op("ttnn.upsample", rows, scale_factor=(2, 2), mode=mode, name="up"))


def transposed(bias: bool) -> Graph:
    b = GraphBuilder("transposed")
    x = b.op("ttnn.relu", b.input("x", (1, 1, SIDE * SIDE, CHANNELS)))
    weights = [b.parameter("w", (CHANNELS, 32, 2, 2)), *([b.parameter("bias", (1, 1, 1, 32))] if bias else [])]
    return b.finish(b.op("ttnn.conv_transpose2d", x, *weights, kernel_size=(2, 2), stride=(2, 2), **WINDOW, name="up"))


def attention(head: int) -> Graph:
    b = GraphBuilder("attention")
    parts = []
    for name in "qkv":
        x = b.op("ttnn.multiply", b.input(name, (1, 4, 64, head)), scalar=0.5)
        if head % 32:
            x = b.op("ttnn.pad", x, padding=((0, 0), (0, 0), (0, 0), (0, -head % 32)))
        parts.append(x)
    y = b.op("ttnn.scaled_dot_product_attention", *parts, scale=0.2, is_causal=False)
    return b.finish(b.op("ttnn.add", y, y, name="sum"))


@pytest.mark.parametrize("board", ["n150", pytest.param("p150", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("make", "given", "options"),
    [
        (upsampled, "bilinear", {}),
        (upsampled, "nearest", {}),
        (transposed, True, {"weights_dtype": "bfp8_b"}),
        (transposed, False, {"weights_dtype": "bfp8_b"}),
        *((attention, head, {"activations_dtype": "bfp8_b"}) for head in (8, 15, 40, 96)),
    ],
)
def test_nothing_is_refused(
    make: Callable[[object], Graph], given: object, options: dict[str, str], board: str
) -> None:
    check = optimize(make(given), board, Options(check="ttmetal", **options)).summary.check  # type: ignore[arg-type]

    assert check is not None
    assert (check.refused, check.repaired) == ((), ())
