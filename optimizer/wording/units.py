"""Bytes, times and shares as a person reads them."""

from __future__ import annotations


def bytes_text(size: float | None) -> str:
    """`1.4 MiB`; `-` for None."""
    if size is None:
        return "-"
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def time_text(time_ns: float | None) -> str:
    """`1.234 ms`; `-` for None."""
    if time_ns is None:
        return "-"
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(time_ns) >= scale:
            return f"{time_ns / scale:.3f} {unit}"
    return f"{time_ns:.0f} ns"


def percent_text(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def counted(count: int, noun: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def change_text(before: float | None, after: float | None) -> str:
    """`-12.3 %`; `-` where there is nothing to compare with."""
    if not before or after is None:
        return "-"
    return f"{100 * (after - before) / before:+.1f} %"
