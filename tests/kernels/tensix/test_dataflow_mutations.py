"""The executor fails where cores would overwrite or miss each other's blocks, or wait forever.

Every mutation of right kernels is caught, whatever the order in which threads happen to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from one_core import execute_grid

from optimizer.errors import VerificationError
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import lower
from tests.kernels.tensix.pipe_kernels import in_turn, ring
from tests.kernels.tensix.test_dataflow import product
from tests.samples import sampled

pytestmark = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def along_a_row() -> Op:
    """The first of three cores multicasts three blocks of a, each core reads its own of b; sums of 12 tiles in L1."""
    return product((3, 1), (3, 4, 1), 3)


KERNELS: dict[str, tuple[Callable[[], Op], Arguments]] = {
    "row": (along_a_row, {"k_blocks": 3}),
    "ring": (ring, NO_ARGUMENTS),
    "turn": (in_turn, NO_ARGUMENTS),
}


def run(name: str, kind: str = "", old: str = "", new: str = "") -> None:
    """The kernels with one text replaced in one thread."""
    build, arguments = KERNELS[name]
    lowered = lower(build())
    kernels: list[KernelSource] = []
    for kernel in emit_program(lowered):
        if kernel.kind == kind:
            assert old in kernel.text, f"the {kind} has no '{old}'"
            kernel = replace(kernel, text=kernel.text.replace(old, new, 1))
        kernels.append(kernel)
    given = {v.name: np.ones((v.type.shape[0] * 32, v.type.shape[1] * 32), np.float32) for v in lowered.body.args}
    execute_grid(lowered, kernels, given, arguments)


@pytest.mark.parametrize("name", KERNELS)
def test_the_right_kernels_run(name: str) -> None:
    run(name)


SENT = "noc_async_write_multicast(get_write_ptr(cb_0), on_cores(1, 0, 2, 0, base_0 + turn_0 * 6144), 6144, 2);"
SAID = "noc_semaphore_set_multicast(get_semaphore(semaphore_2), on_cores(1, 0, 2, 0, get_semaphore(semaphore_1)), 2);"
NO_ROOM = "did not say that it has room|overwrites"
LATE = "is not written|nobody said that tile 0 has arrived"
MUTATIONS = [
    ("row", "reader", "noc_semaphore_wait(semaphore_word(semaphore), 2);", "", NO_ROOM),
    ("row", "reader", "noc_semaphore_wait(semaphore_word(semaphore), 2);",
     "noc_semaphore_wait_min(semaphore_word(semaphore), 1);", NO_ROOM),
    ("row", "reader", "noc_semaphore_set(semaphore_word(semaphore), 0);", "", f"deadlock|{NO_ROOM}"),
    ("row", "reader", "noc_semaphore_wait(semaphore_word(semaphore_1), 1);", "", LATE),
    ("row", "reader", "noc_semaphore_set(semaphore_word(semaphore_1), 0);", "", LATE),
    ("row", "reader", "noc_semaphore_inc(on_core(0, 0, get_semaphore(semaphore)), 1);", "", "deadlock"),
    ("row", "reader", SENT, "", LATE),
    ("row", "reader", SAID, "", "deadlock"),
    ("row", "reader", f"{SENT}\n            {SAID}", f"{SAID}\n            {SENT}", f"{LATE}|{NO_ROOM}"),
    ("row", "reader", SENT, SENT.replace("2, 0, base", "1, 0, base"), "2 cores are said, 1 are in the rectangle"),
    ("row", "reader", SENT, SENT.replace("on_cores(1, 0, 2, 0", "on_cores(1, 0, 3, 0"), "no core of the program is at"),
    ("row", "reader", "base_0 + turn_0 * 6144", "base_0", "overwrites tile 0 of buffer 0"),
    ("row", "reader", "6144, 2);", "4096, 2);", LATE),
    ("row", "reader", "noc_async_write_barrier();", "", "is still being sent"),
    ("row", "reader", "    noc_async_atomic_barrier();\n", "", "ends before what it added to semaphores"),
    ("row", "reader", "noc_index == 0", "noc_index == 1", "against the direction of NoC 0"),
    ("row", "reader", "worker_logical_col_to_virtual_col[x0]", "x0", "no core of the program is at"),
    ("row", "reader", "get_semaphore(semaphore_2)", "get_semaphore(semaphore_1)", "deadlock"),
    ("row", "compute", "pack_reconfig_l1_acc(v10 > 0);", "pack_reconfig_l1_acc(1);", "adds to tile 0 of buffer 2"),
    ("row", "compute", "pack_tile<true>(i_2, cb_2, i_2);", "pack_tile(i_2, cb_2);", "packs in order|are reserved"),
    ("row", "compute", "pack_reconfig_l1_acc(0);\n        tile_regs_release();\n        cb_pop",
     "tile_regs_release();\n        cb_pop",
     "ends while the packer adds to L1"),
    ("ring", "reader", "                noc_async_write_barrier();\n", "", f"{LATE}|is still being sent"),
    ("ring", "writer", "cb_reserve_back(cb_1, 1);", "", f"{NO_ROOM}|are reserved"),
    ("ring", "reader", "turn_0 * 2048", "1 * 2048", "overwrites tile 1 of buffer 1"),
    ("turn", "reader", "noc_semaphore_wait_min(semaphore_word(semaphore), 1);", "", "was written by another thread"),
    ("turn", "writer", "noc_semaphore_inc(", "if (get_absolute_logical_x() == 1) noc_semaphore_inc(", "deadlock"),
]  # fmt: skip
"""Kernel, thread, text, what replaces it, and what the executor says."""


@pytest.mark.parametrize(("name", "kind", "old", "new", "message"), sampled(MUTATIONS, MUTATIONS[::3]))
def test_mutations_are_caught(name: str, kind: str, old: str, new: str, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        run(name, kind, old, new)
