"""Mutations of JSON documents and of texts that know nothing of what they mean."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

HOSTILE = (
    "", " ", "0", "7up", "_", "__x__", "a\nb", "a\r#include <x>", "x\n#include \"/etc/passwd\"\n", "*/ int q; /*",
    '"', "\\", "a\\", "'", "\u2028s_endpgm", "\x85", "\x00", "\x1b[31m", "??/", "//", "/*", "int", "class", "def",
    "lambda", "kernel_main", "cb_0", "x_args", "in0_t", "in0_cb", "reader_zero", "main", "NULL", "\ud800", "\ufb01",
    "fi", "\uff41", "a", "..", "../../x", "/etc/passwd", "con", "COM1", "a/b", "x" * 10_000, "%s{}", "{0}", "$", "@x",
    "; .incbin \"/etc/passwd\"", "\n.incbin \"/etc/passwd\"\n", "- .name: x", "---", "...", "&a", "*a", "!!python/x",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 255, 256, 2**31, 2**63, 10**30, 0.5, -0.0, 1e300, 1e-320, [], {}, [[]], [None],
    ["a"], {"a": 1}, [1, 2, 3], "x", *HOSTILE[:8],
)  # fmt: skip
EXTREMES: tuple[Any, ...] = (
    0, -1, 1, 2, 33, 2**31 - 1, 2**31, 2**33 + 1, 2**40, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**20, 10**25,
    -(10**20), 10**400, 1e20, 1e308, -1e308, 1e-320, math.nan, math.inf, -math.inf, -0.0, 0.5, True, None, "1e20",
    "no_such", "__import__('os').system('x')", "relu\"); system(\"x",
)  # fmt: skip
"""What no number of a document may end in a traceback as: limits of machine types and far beyond, no numbers, code."""
LARGE = (0, 1, 2, 7, 33, 1024, 65537, 10**6, 2**31 - 1, 2**33, 10**12, 2**53)
"""Numbers that many fields take, larger or smaller than those that stand there."""
_WORDS = ("0", "1", "-1", "31", "64", "4294967295", "999999999999", "0.5", "1e400", "inf", "nan", "true", "[]", "[",
"{",
          "}", "(", ")", "%0", "%x", "@x", "=", ",", ":", ";", '"a"', '"\\n', "kv0", "ks1", "v0", "s[0:1]", "ka3",
          "kv0..+4@2", "kv1..+1000000", "off", "vcc", "exec", "offset:5000", "vmcnt(0)", "#7",
          "0x7fffffff")  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of everything in a document."""
    found, waiting = [], [value]
    while waiting:
        at = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            found.append((at, key))
            waiting.append(at[key])
    return found


def fields(document: Any) -> list[list[tuple[Any, Any]]]:
    """The places of a document by the field that they are: elements of one list are one field, and so are the entries
    of a mapping from names that the document also has as strings."""
    found: dict[tuple[Any, ...], list[tuple[Any, Any]]] = defaultdict(list)
    names = {container[key] for container, key in places(document) if isinstance(container[key], str)}
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(document, ())]
    while waiting:
        at, path = waiting.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        for key in keys:
            inner = (*path, "*" if isinstance(at, list) or key in names else key)
            found[inner].append((at, key))
            waiting.append((at[key], inner))
    return list(found.values())


def any_field(document: Any, rng: random.Random, *kinds: type) -> tuple[Any, Any] | None:
    """One place that holds one of these types (none: anything), every field as often as any other."""
    found = [[p for p in group if not kinds or type(p[0][p[1]]) in kinds] for group in fields(document)]
    found = [group for group in found if group]
    return rng.choice(rng.choice(found)) if found else None


def replace_value(document: Any, rng: random.Random) -> None:
    """Something becomes something else."""
    if found := any_field(document, rng):
        found[0][found[1]] = copy.deepcopy(rng.choice(ODD))


def remove_value(document: Any, rng: random.Random) -> None:
    if found := any_field(document, rng):
        del found[0][found[1]]


def extreme(document: Any, rng: random.Random) -> None:
    """A number becomes one at or beyond a limit, or none."""
    if found := any_field(document, rng, int, float):
        found[0][found[1]] = rng.choice(EXTREMES if rng.random() < 0.5 else LARGE)


def exchanged(document: Any, rng: random.Random) -> None:
    """A string becomes another of the document, or one that nothing has."""
    if found := any_field(document, rng, str):
        known = sorted({c[k] for c, k in places(document) if isinstance(c[k], str)})
        found[0][found[1]] = rng.choice((rng.choice(known), "no_such", *EXTREMES[-2:]))


def double_value(document: Any, rng: random.Random) -> None:
    """An element of a list, twice."""
    if found := [(c, k) for c, k in places(document) if isinstance(c, list)]:
        container, key = rng.choice(found)
        container.insert(key, container[key])


def unknown_key(document: Any, rng: random.Random) -> None:
    if found := [c[k] for c, k in places(document) if isinstance(c[k], dict)]:
        rng.choice(found)[rng.choice(("extra", "args", "", "a\nb"))] = rng.choice(ODD)


def renamed(document: Any, rng: random.Random) -> None:
    """One string of the document becomes a hostile one, wherever it stands: references stay references."""
    strings = sorted({c[k] for c, k in places(document) if isinstance(c[k], str)})
    if not strings:
        return
    old, new = rng.choice(strings), rng.choice(HOSTILE)
    for container, key in places(document):
        if container[key] == old:
            container[key] = new


def number_changed(document: Any, rng: random.Random) -> None:
    if found := any_field(document, rng, int, float):
        found[0][found[1]] = rng.choice((0, 1, 2, 3, 7, 16, 17, 64, 255, 1024, 2**24, 2**32, 10**12, -1, 0.5))


DOCUMENT_MUTATORS = (
    replace_value, remove_value, double_value, unknown_key, renamed, renamed, number_changed, extreme, exchanged,
)  # fmt: skip


# -- texts ------------------------------------------------------------------------------------------------
def line_dropped(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    del lines[rng.randrange(len(lines)) : rng.randrange(len(lines)) + 1]
    return "".join(lines)


def line_doubled(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return "".join(lines)


def lines_swapped(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "".join(lines)


def word_replaced(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice((rng.choice(words), rng.choice(_WORDS), rng.choice(HOSTILE)))
    return " ".join(words)


def word_exchanged(text: str, rng: random.Random) -> str:
    """A word of the text in the place of another, everywhere."""
    words = sorted(set(text.split()))
    old, new = rng.choice(words), rng.choice(words)
    return text.replace(old, new, rng.choice((1, -1)))


def number_replaced(text: str, rng: random.Random) -> str:
    digits = [n for n, c in enumerate(text) if c.isdigit()]
    if not digits:
        return text
    at = rng.choice(digits)
    return text[:at] + rng.choice(("0", "3", "9", "33", "64", "999999999999", "1.5", "-1", "")) + text[at + 1 :]


def number_to_an_extreme(text: str, rng: random.Random) -> str:
    """A number of a text becomes one at or beyond a limit, or none."""
    return one_match(r"-?\d+(?:\.\d+)?", text, rng, lambda _: str(rng.choice(EXTREMES)))


def operand_dropped(text: str, rng: random.Random) -> str:
    """A name goes, and the comma behind or before it."""
    return one_match(r"[%@]?\w+, |, [%@]?\w+|[%@]\w+", text, rng, lambda _: "")


def one_match(pattern: str, text: str, rng: random.Random, made: Callable[[re.Match[str]], str]) -> str:
    """One match of a pattern becomes something else."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + made(match) + text[match.end() :]


def nested(text: str, rng: random.Random) -> str:
    opening = rng.choice("[({")
    at = rng.randrange(len(text) + 1)
    return text[:at] + opening * rng.choice((60, 100_000)) + text[at:]


TEXT_MUTATORS = (
    line_dropped, line_doubled, lines_swapped, word_replaced, word_exchanged, number_replaced, number_to_an_extreme,
    operand_dropped,
)  # fmt: skip


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut, put in: what no reader of a format expects."""
    kind = rng.randrange(5)
    at = rng.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.choice((b"\xff\xfe", b"\x00", b"\xc0\xaf", b"NaN", b"Infinity", b"9" * 5000)) + data[at:]
    if kind == 3:
        return data[at:] + data[:at]
    return nested(data.decode("utf-8", "replace"), rng).encode("utf-8", "replace")


def encoded(document: Any, rng: random.Random) -> bytes:
    """JSON, now and then with a key twice."""
    text = json.dumps(document, ensure_ascii=rng.random() < 0.9)
    if rng.random() < 0.03 and (at := [n for n, c in enumerate(text) if c == "{"]):
        cut = rng.choice(at) + 1
        text = f'{text[:cut]}"id": 1, "id": 2, {text[cut:]}'
    return text.encode("utf-8", "surrogatepass")
