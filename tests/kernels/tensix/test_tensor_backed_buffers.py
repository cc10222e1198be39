"""Circular buffers that lie in a tensor's shard: `ttl.bind_cb {tensor = "x"}`."""

from __future__ import annotations

import numpy as np
import pytest
from one_core import execute

from optimizer.errors import GraphError
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.verify import check

PROGRAM = """
ttl.program @shards {fp32_dest_acc_en = false, grid = [2, 2]} {
  ^(%x: tensor<3x2xbf16>, %y: tensor<6x4xbf16>):
  %x_cb = ttl.bind_cb {index = 0, tensor = "x"} : cb<1x2xbf16, 3>
  %y_cb = ttl.bind_cb {index = 1} : cb<1x2xbf16, 2>
  ttl.compute_thread @compute {
    ttl.for {lower = 0, step = 1, upper = 3} {
      ^(%n: index):
      %a = ttl.cb_wait(%x_cb) : block<1x2xbf16>
      %room = ttl.cb_reserve(%y_cb) : block<1x2xbf16>
      %b = ttl.square(%a) : block<1x2xbf16>
      ttl.store(%b, %room)
      ttl.cb_pop(%x_cb)
      ttl.cb_push(%y_cb)
    }
  }
  ttl.datamovement_thread @reader {processor = "reader"} {
    ttl.for {lower = 0, step = 1, upper = 3} {
      ^(%r: index):
      %given = ttl.cb_reserve(%x_cb) : block<1x2xbf16>
      ttl.cb_push(%x_cb)
    }
  }
  ttl.datamovement_thread @writer {processor = "writer"} {
    %cx, %cy = ttl.core {dims = 2} : index, index
    ttl.for {lower = 0, step = 1, upper = 3} {
      ^(%w: index):
      %made = ttl.cb_wait(%y_cb) : block<1x2xbf16>
      %row = ttl.index(%cx, %cy, %w) {map = (d0, d1, d2) -> (d1 * 3 + d2)} : index
      %column = ttl.index(%cx, %cy, %w) {map = (d0, d1, d2) -> (d0 * 2)} : index
      %moved = ttl.copy_out(%made, %y, %row, %column) : transfer
      ttl.transfer_wait(%moved)
      ttl.cb_pop(%y_cb)
    }
  }
}
"""


def program(old: str = "", new: str = "") -> Op:
    assert old in PROGRAM
    return parse(PROGRAM.replace(old, new, 1) if old else PROGRAM)


def test_it_prints_and_parses_back() -> None:
    assert parse(text_of(program())) == program()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('tensor = "x"', 'tensor = "z"', "lies in %z, which is no tensor of the program"),
        ('tensor = "x"', 'tensor = "y"', "does not fill %y"),
        ("%x: tensor<3x2xbf16>", "%x: tensor<3x2xf32>", "a cb<1x2xbf16, 3> lies in %x, a tensor<3x2xf32>"),
        ("%x: tensor<3x2xbf16>", "%x: tensor<4x2xbf16>", "does not fill %x"),
    ],
)
def test_the_buffer_is_the_shard(old: str, new: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        check(program(old, new))


def test_nothing_is_copied_and_the_file_says_where_it_lies() -> None:
    kernels = {k.kind: k for k in emit_program(lower(program(), KernelOptions()))}
    assert "noc_async" not in kernels["reader"].text
    assert kernels["reader"].tensors == ()
    assert "// 3 blocks of 1x2 tiles, bf16, the shard of x" in kernels["reader"].text
    assert kernels["writer"].tensors == ("y",)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
@pytest.mark.parametrize("core", [(0, 0), (1, 1)])
def test_a_core_reads_its_shard_and_writes_its_part(core: tuple[int, int]) -> None:
    lowered = lower(program(), KernelOptions())
    shard = np.arange(96 * 64, dtype=np.float32).reshape(96, 64) % 7
    made = execute(lowered, emit_program(lowered), {"x": shard}, core=core).tensors
    expected = np.zeros((192, 128), np.float32)
    expected[core[1] * 96 :, core[0] * 64 :][:96, :64] = shard**2
    assert np.array_equal(made["y"], expected)
    assert np.array_equal(made["x"], shard)


@pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
def test_what_is_packed_into_a_shard_stays_in_its_tensor() -> None:
    whole = program("%y: tensor<6x4xbf16>", "%y: tensor<3x2xbf16>")
    text = text_of(whole).replace(
        "ttl.bind_cb {index = 1} : cb<1x2xbf16, 2>", 'ttl.bind_cb {index = 1, tensor = "y"} : cb<1x2xbf16, 3>'
    )
    kept = "\n".join(line for line in text.splitlines() if "copy_out" not in line and "transfer_wait" not in line)
    lowered = lower(parse(kept), KernelOptions())
    shard = np.full((96, 64), 3.0, np.float32)
    made = execute(lowered, emit_program(lowered), {"x": shard}).tensors
    assert np.array_equal(made["y"], shard**2)
