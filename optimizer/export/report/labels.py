"""Short names of ops: of the paths that exporters make, the parts that tell ops apart.

`/m/resnet/encoder/stages.0/layers.1/layer/layer.0/convolution/Conv` becomes `encoder/stages.0/layers.1/layer.0` where
every name begins with `/m/resnet`, and nothing else stands between or behind.
"""

from __future__ import annotations

from collections.abc import Iterable

Branches = dict[str, "Branches"]


def labels(names: Iterable[str]) -> dict[str, str]:
    """A label for every name; different names have different ones."""
    split = {name: [part for part in name.split("/") if part] for name in names}
    tree: Branches = {}
    for parts in split.values():
        at = tree
        for part in parts:
            at = at.setdefault(part, {})
        at[""] = {}
    found = {name: _telling(parts, tree) for name, parts in split.items()}
    used: dict[str, int] = {}
    for label in found.values():
        used[label] = used.get(label, 0) + 1
    return {name: label if label and used[label] == 1 else name for name, label in found.items()}


def _telling(parts: list[str], tree: Branches) -> str:
    """The parts where names branch; of a name that stands alone its last part."""
    kept, at = [], tree
    for part in parts:
        if len(at) > 1:
            kept.append(part)
        at = at[part]
    return "/".join(kept or parts[-1:])
