"""What one kind of corruption is, and the pieces that its functions are made of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from optimizer.ir.digest import digest_of

Document = dict[str, Any]
Corrupt = Callable[[Document, random.Random], bool]
"""Edits a document in place; whether there was anything to corrupt."""


class Seen(StrEnum):
    """What finds a corruption if whoever made it wrote `model.graph_sha256` again."""

    CHECK = "check"
    """`ttopt check`, from the document alone."""
    MODEL = "model"
    """`ttopt check --model` only."""
    NEVER = "never"
    """Nothing: the plan is as good as before, or the field is one that the check names as not checked."""


@dataclass(frozen=True)
class Corruption:
    """One kind of corruption."""

    name: str
    seen: Seen
    why: str
    """Why it cannot be seen from the document; empty for what `check` sees."""
    apply: Corrupt

    def corrupted(self, document: Document, rng: random.Random) -> Document | None:
        """A corrupted copy that states the right digest of its graph; None if the plan has nothing of the kind."""
        twin = json.loads(json.dumps(document))
        if not self.apply(twin, rng) or twin == document:
            return None
        return sealed(twin)


KINDS: dict[str, Corruption] = {}


def kind(seen: Seen = Seen.CHECK, why: str = "") -> Callable[[Corrupt], Corrupt]:
    """Registers a corruption under its function's name."""

    def register(apply: Corrupt) -> Corrupt:
        name = apply.__name__.replace("_", " ")
        add(name, apply, seen, why)
        return apply

    return register


def add(name: str, apply: Corrupt, seen: Seen = Seen.CHECK, why: str = "") -> None:
    if name in KINDS:
        raise ValueError(f"two corruptions are called '{name}'")
    if (seen is Seen.CHECK) is bool(why):
        raise ValueError(f"'{name}': what the check does not see needs a reason, what it sees needs none")
    KINDS[name] = Corruption(name, seen, why, apply)


def sealed(document: Document) -> Document:
    """The document with the digest of the graph that it now holds, if it states one."""
    if "graph_sha256" in document["model"]:
        document["model"]["graph_sha256"] = digest_of(document)
    return document


# -- finding things -------------------------------------------------------------------------------------------
def ops(document: Document, *roles: str, op: str = "") -> list[Document]:
    """Ops of these roles (none: of any) whose TTNN name starts with `op`."""
    return [o for o in document["ops"] if (not roles or o["role"] in roles) and o["op"].startswith(op)]


def running(document: Document) -> list[Document]:
    """Ops of a run."""
    return [o for o in document["ops"] if o["role"] != "host"]


def producer(document: Document, value_id: str) -> Document | None:
    return next((o for o in document["ops"] if value_id in o["outputs"]), None)


def readers(document: Document, value_id: str) -> list[Document]:
    return [o for o in document["ops"] if value_id in o["inputs"]]


def values(document: Document, kind: str = "", buffer: str = "") -> list[str]:
    """Ids of values of a kind in a kind of memory."""
    return [
        v
        for v, value in document["values"].items()
        if (not kind or value["kind"] == kind) and (not buffer or value["layout"]["buffer_type"] == buffer)
    ]


def spec(document: Document, value_id: str) -> Document:
    """What a value states but for its layout and data."""
    value = document["values"][value_id]
    return {"shape": value["shape"], "dtype": value["dtype"], "kind": value["kind"], "layout": value["layout"]}


def pick(rng: random.Random, found: list[Any]) -> Any:
    """One of them; None if there is none."""
    return rng.choice(found) if found else None


def configs(document: Document, kind: str) -> list[Document]:
    """Configs of a kind, e.g. `conv2d`."""
    return [o["config"] for o in document["ops"] if o["config"] and o["config"]["kind"].startswith(kind)]


def sharded(document: Document) -> list[Document]:
    """Layouts in shards."""
    return [v["layout"] for v in document["values"].values() if v["layout"]["shard_shape"]]


# -- changing things ------------------------------------------------------------------------------------------
def change(find: Callable[[Document], list[Document]], key: str, to: Callable[[Any], Any]) -> Corrupt:
    """Corruption of one field of one of the records that `find` gives."""

    def apply(document: Document, rng: random.Random) -> bool:
        found = [r for r in find(document) if key in r and to(r[key]) != r[key]]
        if not found:
            return False
        record = rng.choice(found)
        record[key] = to(record[key])
        return True

    return apply


def more(number: Any) -> Any:
    """A figure a little larger; an unstated one stays."""
    return number if number is None else number + max(1, abs(number) // 3)


def walk(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every place of a JSON document with what it holds."""
    yield path, record
    items = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, item in items:
        yield from walk(item, (*path, key))
