"""Mutations of JSON documents and of texts that know nothing of what they mean."""

from __future__ import annotations

import json
import random
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


def replace_value(document: Any, rng: random.Random) -> None:
    """Something becomes something else."""
    if found := places(document):
        container, key = rng.choice(found)
        container[key] = rng.choice(ODD)


def remove_value(document: Any, rng: random.Random) -> None:
    if found := places(document):
        container, key = rng.choice(found)
        del container[key]


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
    if found := [(c, k) for c, k in places(document) if type(c[k]) in (int, float)]:
        container, key = rng.choice(found)
        container[key] = rng.choice((0, 1, 2, 3, 7, 16, 17, 64, 255, 1024, 2**24, 2**31 - 1, 2**32, 10**12, -1, 0.5))


DOCUMENT_MUTATORS = (replace_value, remove_value, double_value, unknown_key, renamed, renamed, number_changed)


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


def nested(text: str, rng: random.Random) -> str:
    opening = rng.choice("[({")
    at = rng.randrange(len(text) + 1)
    return text[:at] + opening * rng.choice((60, 100_000)) + text[at:]


TEXT_MUTATORS = (line_dropped, line_doubled, lines_swapped, word_replaced, word_exchanged, number_replaced)


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
    if rng.random() < 0.03 and "{" in text:
        text = text.replace("{", '{"id": 1, "id": 2, ', 1)
    return text.encode("utf-8", "surrogatepass")
