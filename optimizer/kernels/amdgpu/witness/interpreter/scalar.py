"""Scalar instructions: arithmetic on SGPRs, comparison, branches, moves of exec (CDNA3 ISA, chapter "Scalar ALU")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .decode import Decoder, Step, read_scc, words_of
from .hazards import Traits
from .operands import EXEC, VCC, Name
from .state import Wave

_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
# Result and new scc; None leaves scc as it is.
Outcome = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class _Scalar:
    result: str
    """Type of the destination, empty when there is only scc."""
    sources: tuple[str, ...]
    compute: Callable[..., Outcome]
    reads_scc: bool = False
    tied: bool = False
    """The destination is also the first source (s_addk_i32)."""


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _signed_sum(exact: int) -> Outcome:
    """A sum of signed words, and whether it overflows."""
    return exact & _M32, int(not -(1 << 31) <= exact < 1 << 31)


def _field(value: int, control: int, bits: int, *, signed_field: bool) -> Outcome:
    offset, width = control & (bits - 1), control >> 16 & 0x7F
    result = value >> offset & ((1 << width) - 1)
    if signed_field and width and result >> (width - 1) & 1:
        result |= ((1 << bits) - 1) & ~((1 << width) - 1)
    return _nonzero(result)


def _shift_add(amount: int) -> Callable[[int, int], Outcome]:
    def compute(a: int, b: int) -> Outcome:
        exact = (a << amount) + b
        return exact & _M32, int(exact > _M32)

    return compute


def _nonzero(result: int) -> Outcome:
    return result, int(result != 0)


def _first_one(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else _M32


def _leading_zeros(value: int) -> int:
    return 32 - value.bit_length() if value else _M32


def _two(kind: str, compute: Callable[[int, int], Outcome], second: str = "") -> _Scalar:
    return _Scalar(kind, (kind, second or kind), compute)


def _arithmetic() -> dict[str, _Scalar]:
    return {
        "s_add_u32": _two("u32", lambda a, b: (a + b & _M32, a + b >> 32)),
        "s_sub_u32": _two("u32", lambda a, b: (a - b & _M32, int(b > a))),
        "s_add_i32": _two("u32", lambda a, b: _signed_sum(signed(a) + signed(b))),
        "s_sub_i32": _two("u32", lambda a, b: _signed_sum(signed(a) - signed(b))),
        "s_addc_u32": _Scalar("u32", ("u32", "u32"), lambda a, b, c: (a + b + c & _M32, a + b + c >> 32), True),
        "s_subb_u32": _Scalar("u32", ("u32", "u32"), lambda a, b, c: (a - b - c & _M32, int(b + c > a)), True),
        "s_mul_i32": _two("u32", lambda a, b: (a * b & _M32, None)),
        "s_mul_hi_u32": _two("u32", lambda a, b: (a * b >> 32, None)),
        "s_mul_hi_i32": _two("u32", lambda a, b: (signed(a) * signed(b) >> 32 & _M32, None)),
        "s_min_u32": _two("u32", lambda a, b: (min(a, b), int(a < b))),
        "s_max_u32": _two("u32", lambda a, b: (max(a, b), int(a > b))),
        "s_min_i32": _two("u32", lambda a, b: (min(a, b, key=signed), int(signed(a) < signed(b)))),
        "s_max_i32": _two("u32", lambda a, b: (max(a, b, key=signed), int(signed(a) > signed(b)))),
        "s_lshl_b32": _two("u32", lambda a, b: _nonzero(a << (b & 31) & _M32)),
        "s_lshr_b32": _two("u32", lambda a, b: _nonzero(a >> (b & 31))),
        "s_ashr_i32": _two("u32", lambda a, b: _nonzero(signed(a) >> (b & 31) & _M32)),
        "s_lshl_b64": _two("u64", lambda a, b: _nonzero(a << (b & 63) & _M64), "u32"),
        "s_lshr_b64": _two("u64", lambda a, b: _nonzero(a >> (b & 63)), "u32"),
        "s_ashr_i64": _two("u64", lambda a, b: _nonzero(signed(a, 64) >> (b & 63) & _M64), "u32"),
        "s_bfe_u32": _two("u32", lambda a, b: _field(a, b, 32, signed_field=False)),
        "s_bfe_i32": _two("u32", lambda a, b: _field(a, b, 32, signed_field=True)),
        "s_bfe_u64": _two("u64", lambda a, b: _field(a, b, 64, signed_field=False), "u32"),
        "s_bfm_b32": _two("u32", lambda a, b: (((1 << (a & 31)) - 1) << (b & 31) & _M32, None)),
        "s_bfm_b64": _Scalar("u64", ("u32", "u32"), lambda a, b: (((1 << (a & 63)) - 1) << (b & 63) & _M64, None)),
        **{f"s_lshl{amount}_add_u32": _two("u32", _shift_add(amount)) for amount in range(1, 5)},
        "s_pack_ll_b32_b16": _two("u32", lambda a, b: (a & 0xFFFF | (b & 0xFFFF) << 16, None)),
        "s_pack_lh_b32_b16": _two("u32", lambda a, b: (a & 0xFFFF | b & 0xFFFF0000, None)),
        "s_pack_hh_b32_b16": _two("u32", lambda a, b: (a >> 16 | b & 0xFFFF0000, None)),
        "s_cselect_b32": _Scalar("u32", ("u32", "u32"), lambda a, b, c: (a if c else b, None), True),
        "s_cselect_b64": _Scalar("u64", ("u64", "u64"), lambda a, b, c: (a if c else b, None), True),
        "s_absdiff_i32": _two("u32", lambda a, b: _nonzero(abs(signed(a) - signed(b)) & _M32)),
    }


def _unary() -> dict[str, _Scalar]:
    return {
        "s_mov_b32": _Scalar("u32", ("u32",), lambda a: (a, None)),
        "s_mov_b64": _Scalar("u64", ("u64",), lambda a: (a, None)),
        "s_not_b32": _Scalar("u32", ("u32",), lambda a: _nonzero(~a & _M32)),
        "s_not_b64": _Scalar("u64", ("u64",), lambda a: _nonzero(~a & _M64)),
        "s_brev_b32": _Scalar("u32", ("u32",), lambda a: (int(f"{a:032b}"[::-1], 2), None)),
        "s_brev_b64": _Scalar("u64", ("u64",), lambda a: (int(f"{a:064b}"[::-1], 2), None)),
        "s_bcnt1_i32_b32": _Scalar("u32", ("u32",), lambda a: _nonzero(a.bit_count())),
        "s_bcnt1_i32_b64": _Scalar("u32", ("u64",), lambda a: _nonzero(a.bit_count())),
        "s_ff1_i32_b32": _Scalar("u32", ("u32",), lambda a: (_first_one(a), None)),
        "s_ff1_i32_b64": _Scalar("u32", ("u64",), lambda a: (_first_one(a), None)),
        "s_flbit_i32_b32": _Scalar("u32", ("u32",), lambda a: (_leading_zeros(a), None)),
        "s_sext_i32_i8": _Scalar("u32", ("u32",), lambda a: (signed(a & 0xFF, 8) & _M32, None)),
        "s_sext_i32_i16": _Scalar("u32", ("u32",), lambda a: (signed(a & 0xFFFF, 16) & _M32, None)),
        "s_abs_i32": _Scalar("u32", ("u32",), lambda a: _nonzero(abs(signed(a)) & _M32)),
        "s_movk_i32": _Scalar("u32", ("k16",), lambda a: (a & _M32, None)),
        "s_addk_i32": _Scalar("u32", ("k16",), lambda d, k: _signed_sum(signed(d) + k), tied=True),
        "s_mulk_i32": _Scalar("u32", ("k16",), lambda d, k: (signed(d) * k & _M32, None), tied=True),
        "s_cmov_b32": _Scalar("u32", ("u32",), lambda d, a, c: (a if c else d, None), True, True),
        "s_cmov_b64": _Scalar("u64", ("u64",), lambda d, a, c: (a if c else d, None), True, True),
    }


def _logic(function: Callable[[int, int, int], int], mask: int, a: int, b: int) -> Outcome:
    return _nonzero(function(a, b, mask))


def _logical() -> dict[str, _Scalar]:
    functions: dict[str, Callable[[int, int, int], int]] = {
        "and": lambda a, b, _: a & b,
        "or": lambda a, b, _: a | b,
        "xor": lambda a, b, _: a ^ b,
        "andn2": lambda a, b, m: a & ~b & m,
        "orn2": lambda a, b, m: (a | ~b) & m,
        "nand": lambda a, b, m: ~(a & b) & m,
        "nor": lambda a, b, m: ~(a | b) & m,
        "xnor": lambda a, b, m: ~(a ^ b) & m,
    }
    table = {}
    for name, function in functions.items():
        for kind, mask in (("u32", _M32), ("u64", _M64)):
            table[f"s_{name}_b{kind[1:]}"] = _two(kind, partial(_logic, function, mask))
    return table


def _comparisons() -> dict[str, _Scalar]:
    relations: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda a, b: a == b,
        "lg": lambda a, b: a != b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
    }
    table = {}
    for name, relation in relations.items():
        for letter in "ui":
            table[f"s_cmp_{name}_{letter}32"] = _Scalar("", ("u32", "u32"), _compare(relation, letter == "i"))
            constant = "k16" if letter == "i" else "q16"
            table[f"s_cmpk_{name}_{letter}32"] = _Scalar("", ("u32", constant), _compare(relation, letter == "i"))
    for name in ("eq", "lg"):
        table[f"s_cmp_{name}_u64"] = _Scalar("", ("u64", "u64"), _compare(relations[name], False))
    table["s_bitcmp1_b32"] = _Scalar("", ("u32", "u32"), lambda a, b: (0, a >> (b & 31) & 1))
    table["s_bitcmp0_b32"] = _Scalar("", ("u32", "u32"), lambda a, b: (0, 1 - (a >> (b & 31) & 1)))
    return table


def _compare(relation: Callable[[int, int], bool], is_signed: bool) -> Callable[[int, int], Outcome]:
    if is_signed:
        return lambda a, b: (0, int(relation(signed(a & _M32), signed(b & _M32))))
    return lambda a, b: (0, int(relation(a, b)))


# New exec from the source and the old exec; the old exec goes to the destination.
_SAVE_EXEC: dict[str, Callable[[int, int], int]] = {
    "s_and_saveexec_b64": lambda source, active: source & active,
    "s_or_saveexec_b64": lambda source, active: source | active,
    "s_xor_saveexec_b64": lambda source, active: source ^ active,
    "s_andn2_saveexec_b64": lambda source, active: source & ~active & _M64,
}


def _vccz(wave: Wave) -> bool:
    if wave.vccz_is_stale:
        raise wave.error("hazard", "vccz does not follow writes of half of vcc; missing: s_mov_b64 vcc, vcc")
    return wave.scalar(VCC, 2) == 0


_BRANCHES: dict[str, Callable[[Wave], bool]] = {
    "s_branch": lambda _: True,
    "s_cbranch_scc0": lambda wave: read_scc(wave) == 0,
    "s_cbranch_scc1": lambda wave: read_scc(wave) == 1,
    "s_cbranch_vccz": lambda wave: _vccz(wave),
    "s_cbranch_vccnz": lambda wave: not _vccz(wave),
    "s_cbranch_execz": lambda wave: wave.exec_mask == 0,
    "s_cbranch_execnz": lambda wave: wave.exec_mask != 0,
}
_TABLE = {**_arithmetic(), **_unary(), **_logical(), **_comparisons()}
MNEMONICS = frozenset(_TABLE) | frozenset(_SAVE_EXEC)
BRANCHES = frozenset(_BRANCHES)


def decode(d: Decoder) -> Step:
    """A scalar instruction that computes something."""
    d.modifiers()
    if d.instruction.mnemonic in _SAVE_EXEC:
        return _save_exec(d)
    spec = _TABLE[d.instruction.mnemonic]
    d.arity(len(spec.sources) + bool(spec.result))
    operands = list(d.instruction.operands)
    reads: list[int] = []
    readers: list[Callable[[Wave], int]] = []
    target = None
    if spec.result:
        target = d.register(operands.pop(0), words_of(spec.result), "s")
        if spec.tied:
            base, count = target.base, target.count
            reads += target.keys
            readers.append(lambda wave: wave.scalar(base, count))
    for kind, operand in zip(spec.sources, operands, strict=True):
        if kind in ("k16", "q16"):
            value = d.immediate(operand, -32768 if kind == "k16" else 0, 65535)
            value = signed(value & 0xFFFF, 16) if kind == "k16" else value
            readers.append(lambda _, value=value: value)  # type: ignore[misc]
            continue
        keys, reader = d.source(operand, kind, "s")
        reads += keys
        readers.append(reader)  # type: ignore[arg-type]
    if spec.reads_scc:
        readers.append(read_scc)

    def execute(wave: Wave) -> None:
        result, scc = spec.compute(*[reader(wave) for reader in readers])
        if target is not None:
            wave.set_scalar(target.base, target.count, result)
        if scc is not None:
            wave.scc = scc

    return d.step(Traits("salu", tuple(reads), tuple(target.keys) if target is not None else ()), execute)


def _save_exec(d: Decoder) -> Step:
    d.arity(2)
    target = d.register(0, 2, "s")
    keys, reader = d.source(1, "u64", "s")
    combine = _SAVE_EXEC[d.instruction.mnemonic]

    def execute(wave: Wave) -> None:
        active, source = wave.exec_mask, reader(wave)
        new = combine(int(source), active)
        wave.set_scalar(target.base, 2, active)
        wave.set_scalar(EXEC, 2, new)
        wave.scc = int(new != 0)

    return d.step(Traits("salu", (*keys, EXEC, EXEC + 1), (*target.keys, EXEC, EXEC + 1)), execute)


def decode_branch(d: Decoder, labels: dict[str, int]) -> Step:
    """A branch; `labels` maps each label to the index of the instruction that follows it."""
    name, operands = d.instruction.mnemonic, d.instruction.operands
    if len(operands) != 1 or not isinstance(label := operands[0].value, Name):
        raise d.text_error(f"{name} takes a label")
    if label.text not in labels:
        raise d.text_error(f"no label '{label.text}'", tuple(sorted(labels)))
    target, taken = labels[label.text], _BRANCHES[name]

    def execute(wave: Wave) -> None:
        if taken(wave):
            wave.pc = target - 1

    return d.step(Traits("flow", (VCC, VCC + 1) if "vcc" in name else (), ()), execute)
