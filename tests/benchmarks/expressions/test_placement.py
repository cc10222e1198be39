"""Where values are computed: once per scope, and where every use is dominated."""

from __future__ import annotations

import json

import pytest
import sympy
from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter, floor_div, mod
from gfx942.expr.errors import ExpressionError

from optimizer.errors import StateError
from optimizer.kernels.amdgpu.abi import THREAD_ID, WORKGROUP_ID
from optimizer.kernels.amdgpu.ir import Label, Program
from optimizer.kernels.amdgpu.operands import OFF, Immediate
from optimizer.kernels.amdgpu.validate import validate


class Kernel:
    """A builder with an emitter that knows a lane and a workgroup."""

    def __init__(self) -> None:
        self.builder = KernelBuilder()
        self.emitter = ExpressionEmitter(self.builder)
        self.tid = self.emitter.bind("tid_x", THREAD_ID, 0, 255)
        self.wgid = self.emitter.bind("wgid_x", WORKGROUP_ID[0], 0, 99)

    def names(self) -> list[str]:
        return [item.name for item in self.finished().body]

    def finished(self) -> Program:
        program = self.builder.program()
        validate(program)
        return program

    def loop(self, use) -> None:
        """A loop that may run no time at all; `use` gets the counter's symbol."""
        b = self.builder
        counter = b.redefinable(b.sgpr())
        b.s_mov_b32(0, dst=counter)
        with self.emitter.scope():
            k = self.emitter.bind("k", counter, 0, 15)
            head, done = b.label(b.new_label("loop")), b.new_label("done")
            b.s_cmp_lt_u32(counter, WORKGROUP_ID[1])
            b.s_cbranch_scc0(done)
            use(k)
        b.s_add_u32(counter, 1, dst=counter)
        b.s_branch(head)
        b.label(done)


def test_a_value_is_computed_once() -> None:
    kernel = Kernel()
    first = kernel.emitter.vector(floor_div(kernel.tid, 16) * 40 + 3)
    assert kernel.emitter.vector(3 + 40 * floor_div(kernel.tid, 16)) == first
    kernel.emitter.vector(floor_div(kernel.tid, 16))
    assert kernel.names() == ["v_lshrrev_b32", "v_mad_u32_u24"]


def test_invariants_go_before_the_loop_and_serve_behind_it() -> None:
    kernel = Kernel()
    row = floor_div(kernel.tid, 16) * 480
    kernel.loop(lambda k: kernel.builder.ds_write_b32(kernel.emitter.vector(row + k), THREAD_ID))
    kernel.builder.ds_write_b32(kernel.emitter.vector(row), THREAD_ID)
    kernel.builder.s_endpgm()
    program = kernel.finished()
    label = program.body.index(Label("loop_0"))
    before = [i.name for i in program.body[:label]]
    inside = [i.name for i in program.body[label + 1 :]]
    assert before == ["s_mov_b32", "v_lshrrev_b32", "v_mul_u32_u24"]
    assert inside[2:4] == ["v_add_u32", "ds_write_b32"]
    assert inside.count("v_mul_u32_u24") == 0


def test_values_of_the_loop_are_not_used_behind_it() -> None:
    kernel = Kernel()
    kernel.loop(lambda k: kernel.emitter.vector(kernel.tid + 4 * k))
    other = kernel.emitter.bind("k", WORKGROUP_ID[2], 0, 15)
    kernel.builder.ds_write_b32(kernel.emitter.vector(kernel.tid + 4 * other), THREAD_ID)
    assert kernel.names().count("v_add_u32") == 2


def test_nested_scopes_place_each_part_in_its_own() -> None:
    kernel = Kernel()

    def outer(k: sympy.Expr) -> None:
        with kernel.emitter.scope():
            j = kernel.emitter.bind("j", kernel.builder.s_mov_b32(7), 0, 7)
            kernel.builder.label("inner")
            kernel.emitter.vector(floor_div(kernel.tid, 3) + mod(k, 5) * 11 + j * 64)

    kernel.loop(outer)
    program = kernel.finished()
    place = {item.name: n for n, item in enumerate(program.body)}
    assert place["v_mul_u32_u24"] < place["loop_0"] < place["s_mul_hi_u32"] < place["inner"]
    inside = [item.name for item in program.body[place["inner"] + 1 :]]
    assert inside[:3] == ["s_lshl_b32", "s_add_u32", "v_add_u32"]


def test_constants_are_set_before_all_loops() -> None:
    kernel = Kernel()
    wide = kernel.emitter.bind("wide", kernel.builder.vgpr(), 0, 2**31)
    kernel.builder.v_mov_b32(5, dst=kernel.emitter.scopes.operand(wide))
    kernel.loop(lambda k: kernel.emitter.vector(floor_div(wide + 1000 * k, 7)))
    names = kernel.names()
    assert names.index("s_mov_b32") < names.index("loop_0") < names.index("v_mul_hi_u32")
    assert "s_mov_b32" not in names[names.index("loop_0") :]


def test_uniform_parts_stay_in_the_scalar_unit() -> None:
    kernel = Kernel()
    operand = kernel.emitter.scalar(kernel.wgid * 4096 + 20)
    assert operand.file == "s"
    assert kernel.names() == ["s_lshl_b32", "s_add_u32"]
    with pytest.raises(ExpressionError, match="not the same in all lanes"):
        kernel.emitter.scalar(kernel.wgid + kernel.tid)


def test_a_buffer_address_has_three_parts() -> None:
    kernel = Kernel()
    address = kernel.emitter.buffer_address(kernel.wgid * 4096 + kernel.tid * 16 + 20)
    assert (address.vector.file, address.scalar.file, address.offset) == ("v", "s", 20)
    assert kernel.names() == ["s_lshl_b32", "v_lshlrev_b32"]


def test_a_large_constant_leaves_the_offset_field() -> None:
    kernel = Kernel()
    address = kernel.emitter.buffer_address(kernel.wgid * 64 + 5000)
    assert (address.vector, address.offset) == (OFF, 5000 % 4096)
    assert kernel.names() == ["s_lshl_b32", "s_add_u32"]


def test_parts_that_may_be_negative_are_not_split_off() -> None:
    kernel = Kernel()
    address = kernel.emitter.buffer_address(4096 - 16 * kernel.tid + kernel.wgid)
    assert (address.scalar, address.offset) == (Immediate(0), 0)
    address = kernel.emitter.lds_address(16 * kernel.tid - 32)
    assert address.offset == 0


def test_symbols_have_one_register_and_one_meaning() -> None:
    kernel = Kernel()
    with pytest.raises(StateError, match="bound already"):
        kernel.emitter.bind("tid_x", THREAD_ID, 0, 3)
    with pytest.raises(ExpressionError, match="not one register"):
        kernel.emitter.bind("pair", kernel.builder.vgpr(2), 0, 3)
    with pytest.raises(ExpressionError, match="does not fit"):
        kernel.emitter.bind("long", kernel.builder.vgpr(), -1, 2**32 - 1)


@pytest.mark.parametrize("factor", [2**26, 2**40])
def test_a_result_above_32_bits_is_refused(factor: int) -> None:
    kernel = Kernel()
    with pytest.raises(ExpressionError, match="do not fit 32 bits"):
        kernel.emitter.emit(kernel.tid * factor)


def test_thread_ids_of_a_flat_workgroup_cost_nothing() -> None:
    builder = KernelBuilder()
    emitter = ExpressionEmitter(builder)
    x, y, z = emitter.bind_thread_ids((256, 1, 1))
    assert (emitter.emit(x), y, z, len(builder.program().body)) == (THREAD_ID, 0, 0, 0)


def test_thread_ids_of_several_dimensions_are_fields_of_one_register() -> None:
    builder = KernelBuilder()
    emitter = ExpressionEmitter(builder)
    emitter.bind_thread_ids((16, 4, 2))
    assert [str(i.uses[1]) for _, i in builder.program().instructions] == ["0", "10", "20"]


def test_a_register_of_its_own_may_be_changed() -> None:
    kernel = Kernel()
    shared = kernel.emitter.vector(4 * kernel.tid)
    own = kernel.emitter.owned(4 * kernel.tid)
    other = kernel.emitter.owned(8 * kernel.tid)
    assert own != shared
    assert kernel.emitter.vector(8 * kernel.tid) != other
    assert kernel.names() == ["v_lshlrev_b32", "v_mov_b32", "v_lshlrev_b32", "v_lshlrev_b32"]


def test_a_named_value_is_where_later_expressions_start() -> None:
    kernel = Kernel()
    corner = kernel.emitter.named("corner", 4096 * kernel.wgid + 20)
    assert kernel.emitter.named("nothing", sympy.Integer(0)) == 0
    kernel.emitter.scalar(corner + 5000)
    assert kernel.names() == ["s_lshl_b32", "s_add_u32", "s_add_u32"]


def test_the_channels_tell_what_happens(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for variable in (
        "TTOPT_ASM_KERNEL_EMITTER_DEBUG",
        "TTOPT_ASM_KERNEL_CSE_DEBUG",
        "TTOPT_ASM_LDS_DSREAD_OFFSET_DEBUG",
    ):
        monkeypatch.setenv(variable, "1")
    kernel = Kernel()
    for offset in (0, 64):
        kernel.emitter.lds_address(8 * kernel.tid + offset)
    records = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [r["hit"] for r in records if r["channel"] == "cse"] == [False, True]
    assert [r["message"] for r in records if r["channel"] == "emitter"] == ["8*tid_x -> kv0"]
    assert [r["offset"] for r in records if r["channel"] == "ds-offset"] == [0, 64]
