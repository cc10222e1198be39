"""C++ text of names and values: the one place where something of a program becomes part of an emitted kernel.

Every function takes one type and raises StateError for another, so that nothing is written as it came.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from optimizer.errors import StateError
from optimizer.kernels.tensix.kernel_api import declared_in
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.process.identifiers import Identifiers, Spelling


def _words(text: str) -> list[str]:
    return text.split()


KEYWORDS = frozenset(
    _words("""alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
        class
        compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
        decltype default delete do double dynamic_cast else enum explicit export extern false final float for
        friend goto if import inline int long module mutable namespace new noexcept not not_eq nullptr
        operator or or_eq override private protected public register reinterpret_cast requires restrict return
        short signed sizeof static static_assert static_cast struct switch template this thread_local throw
        true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor
        xor_eq""")
)
_FIXED = frozenset(
    _words("""kernel_main main std tensix assert errno linux unix i386 signbit isnan isinf offsetof va_arg setjmp
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t
    noc_async_read_page noc_async_write_page noc_async_read_barrier noc_async_write_barrier
    get_write_ptr get_read_ptr get_tile_size get_common_arg_val get_arg_val get_compile_time_arg_val
    get_absolute_logical_x get_absolute_logical_y next_compile_time_args_offset
    cb_wait_front cb_pop_front cb_reserve_back cb_push_back
    tile_regs_acquire tile_regs_commit tile_regs_wait tile_regs_release reduce_uninit
    reconfig_data_format pack_reconfig_data_format pack_tile""")
)
"""What emitted files use besides the functions of `tile_ops`; macros in small letters."""
HELPERS: Mapping[str, str] = MappingProxyType(
    {
        str(re.findall(r"(\w+)\(", text)[0]): text
        for text in re.split(r"(?<=}\n)\n", (files(__package__) / "cross_core.hpp").read_text(encoding="utf-8"))
    }
)
"""Functions that kernels which reach other cores define, by name."""
_CROSS_CORE = frozenset(
    _words("""noc_async_write noc_async_write_multicast noc_async_write_multicast_loopback_src noc_async_atomic_barrier
    noc_semaphore_wait noc_semaphore_wait_min noc_semaphore_set noc_semaphore_inc noc_semaphore_set_remote
    noc_semaphore_set_multicast noc_semaphore_set_multicast_loopback_src get_semaphore get_noc_addr
    get_noc_multicast_addr noc_index tt_l1_ptr worker_logical_col_to_virtual_col worker_logical_row_to_virtual_row
    pack_reconfig_l1_acc""")
)
"""What kernels that reach other cores, or sum up in L1, use besides."""
_BUFFER = re.compile(r"cb_\d{1,2}")
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*[A-Z]|[A-Z]+[0-9]+")
_TOKENS = re.compile(
    r"(?:#\d+|[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*|0x[0-9a-f]+u?|\d+(?:\.\d+)?(?:e[+-]?\d+)?f?"
    r"|[-+*%(),<>]| )*",
    re.ASCII,
)


@cache
def _functions() -> frozenset[str]:
    """Everything that kernels may call."""
    found = {*_FIXED, *_CROSS_CORE, *HELPERS, *declared_in()}
    for op in TILE_OPS.values():
        found.update(call.function for form in op.forms for call in (form.init, form.call))
    return frozenset(found)


@cache
def _types() -> frozenset[str]:
    """Types that kernels name."""
    templates = [t for op in TILE_OPS.values() for form in op.forms for c in (form.init, form.call) for t in c.template]
    named = {word for text in templates for word in re.findall(r"[A-Za-z_]\w*", text)}
    return frozenset(named | {"DataFormat", "TensorAccessor", "TensorAccessorArgs"})


def _taken(name: str) -> bool:
    """A word in capitals may be a macro of some header."""
    macro = _MACRO.fullmatch(name) is not None
    known = name in KEYWORDS or name in _functions() or name in _types()
    return macro or known or _BUFFER.fullmatch(name) is not None


_SPELLING = Spelling(re.compile(r"(?!.*__)[A-Za-z][0-9A-Za-z_]*"), _taken, "v")


def names() -> Identifiers:
    """The names of one file, apart from what C++, the kernel API and the file itself use."""
    return Identifiers(_SPELLING)


def integer(value: object) -> str:
    """A whole number in decimal."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise StateError(f"{value!r} is no whole number")
    return str(int(value))


def _number(value: object) -> float:
    if not isinstance(value, float | int) or isinstance(value, bool):
        raise StateError(f"{value!r} is no number")
    return float(value)


def floating(value: object) -> str:
    """A float literal; infinite and undefined values, which have none, are casts of their bits."""
    number = _number(value)
    if not math.isfinite(single(number)):
        return f"__builtin_bit_cast(float, {float_bits(number)})"
    return f"{number!r}f"


def float_bits(value: object) -> str:
    """The bits of a float32."""
    return f"0x{struct.unpack('<I', struct.pack('<f', single(_number(value))))[0]:08x}u"


def reciprocal(value: object) -> float:
    """One through a float32, as float32: infinite of zero."""
    number: float = struct.unpack("<f", struct.pack("<f", single(_number(value))))[0]
    return math.copysign(math.inf, number) if number == 0 else single(1.0 / number)


def single(value: float) -> float:
    """The value, infinite where float32 ends."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return value


def function(name: str) -> str:
    """The name of a function of the kernel API."""
    if name not in _functions():
        raise StateError(f"'{name}' is no function of the kernel API")
    return name


def relation(text: object) -> str:
    """A relation that a condition tests."""
    if text not in ("==", "<="):
        raise StateError(f"{text!r} is no relation of a condition")
    return str(text)


def tokens(text: object) -> str:
    """An argument that one of our passes wrote: names, numbers, operators and `#k`, and nothing else."""
    if not isinstance(text, str) or _TOKENS.fullmatch(text) is None:
        raise StateError(f"{text!r} is no argument of a call")
    return text
