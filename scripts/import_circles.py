"""Fails where modules of the packages import each other in a circle, and names every such circle.

    python scripts/import_circles.py [ROOT]

Every import that a file states counts: at its head, inside functions and under `TYPE_CHECKING`. The last two load
nothing at start-up, but a file that names another one's types or calls it later cannot be read without it either.
So do modules that it names as text: rows of registries (`"optimizer.room.module:name"`), arguments of `import_module`
and of `python -m`, programs that it writes. Circles that only such a name closes are listed in `KNOWN`, until mended.
What `optimizer.families` imports is asked of it by the rooms above, by aspect, and is no reference of its own.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path, PurePath
from typing import NamedTuple

import networkx

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("optimizer", "api")
REFERRING = (ast.Import, ast.ImportFrom, ast.Constant, ast.JoinedStr, ast.BinOp, ast.arg)
MODULE_NAME = re.compile(r"(?<![\w./-])[A-Za-z_]\w*(?:\.\w+)+")

_CATALOGUE = "a name that options check stands beside the class, above options, that it is for"
KNOWN = {
    ("optimizer.process.registered", "optimizer.sharding.dram"): _CATALOGUE,
    ("optimizer.process.registered", "optimizer.sharding.dfsharding"): _CATALOGUE,
    ("optimizer.process.registered", "optimizer.sharding.dfsharding2"): _CATALOGUE,
    ("optimizer.process.registered", "optimizer.sharding.whole_graph.global_policy"): _CATALOGUE,
    ("optimizer.process.registered", "optimizer.opmodel.ttmetal.model"): _CATALOGUE,
    ("optimizer.result", "optimizer.export.registry"): "`OptimizedGraph.emit` is `optimizer.emit`, of a room above",
    ("optimizer.export.launcher", "optimizer.cli"): "the launcher that it writes runs the command, which writes it",
}
"""(importer, imported) -> why this name as text still closes a circle. The list may only get shorter."""


class How(StrEnum):
    """The ways in which a file refers to a module."""

    IMPORT = "imports"
    TYPES = "imports for its annotations"
    TEXT = "names as text"


class Reference(NamedTuple):
    """One place where a file refers to a module."""

    line: int
    module: str
    how: How


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="the folder that holds the packages")
    root = parser.parse_args().root
    graph = import_graph(root)
    known = KNOWN if root.resolve() == ROOT else {}
    mended = [edge for edge in known if not is_excused(graph, edge)]
    for importer, imported in mended:
        print(f"{importer} -> {imported} closes no circle as text any more: take it out of KNOWN", file=sys.stderr)
    graph.remove_edges_from(known)
    found = circles(graph)
    for number, members in enumerate(found, 1):
        print(f"circle {number} of {len(found)}: {len(members)} modules import each other", file=sys.stderr)
        for importer, imported in networkx.find_cycle(graph.subgraph(members), members[0]):
            edge = graph.edges[importer, imported]
            print(f"  {edge['place']} {edge['how']} {imported}", file=sys.stderr)
        print(f"  all: {', '.join(members)}", file=sys.stderr)
    if not found and not mended:
        print(f"no circles among {len(graph)} modules, but for {len(known)} known names as text")
    return 1 if found or mended else 0


def circles(graph: networkx.DiGraph[str]) -> list[list[str]]:
    """The strongly connected components of more than one module; names in order within each, and the circles too."""
    return sorted(sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1)


def is_excused(graph: networkx.DiGraph[str], edge: tuple[str, str]) -> bool:
    """Whether `KNOWN` may hold the edge: it is there, as text only, and on a circle."""
    if not graph.has_edge(*edge) or graph.edges[edge]["how"] != How.TEXT:
        return False
    importer, imported = edge
    return networkx.has_path(graph, imported, importer)


def import_graph(root: Path) -> networkx.DiGraph[str]:
    """An edge from every module below `root` to each that it refers to, with `how` and the first `place`: `path:line`.

    Where it does so in several ways, an import comes before a name as text. Raises FileNotFoundError where a package is
    missing: a check of nothing must not pass.
    """
    files = modules(root)
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(files)
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        found = references(name, path.name == "__init__.py", syntax(tree), files)
        for line, imported, how in sorted(found, key=lambda reference: reference.how == How.TEXT):
            if imported != name and not graph.has_edge(name, imported):
                graph.add_edge(name, imported, place=f"{path.relative_to(root)}:{line}", how=how)
    return graph


def modules(root: Path) -> dict[str, Path]:
    """The file of every module of the packages, by dotted name; a package is its `__init__.py`."""
    found = {}
    for package in PACKAGES:
        if not (root / package).is_dir():
            raise FileNotFoundError(f"{root} holds no folder {package}")
        for path in sorted((root / package).rglob("*.py")):
            found[module_name(path.relative_to(root))] = path
    return found


def module_name(path: PurePath) -> str:
    """The dotted name of a Python file, from the folder that the path starts in."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def references(name: str, is_package: bool, nodes: list[ast.AST], known: Collection[str]) -> Iterator[Reference]:
    """What these parts of the module `name` refer to of the modules `known`.

    The packages that hold the module are none as text: it cannot be imported without them.
    """
    package = name if is_package else name.rpartition(".")[0]
    types = {id(part) for node in nodes if _is_for_types(node) for part in ast.walk(node)}
    for node in nodes:
        how = How.TYPES if id(node) in types else How.IMPORT
        if isinstance(node, ast.Import):
            yield from (Reference(node.lineno, alias.name, how) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, package)
            for alias in node.names:
                target = f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source
                if target in known:
                    yield Reference(node.lineno, target, how)
    for line, text in texts(nodes):
        for target in named(text, known):
            if not f"{name}.".startswith(f"{target}."):
                yield Reference(line, target, How.TEXT)


def named(text: str, known: Collection[str]) -> Iterator[str]:
    """The modules `known` that a text names by at least two words, or names things of; a program with its package."""
    for found in MODULE_NAME.findall(text):
        target = found
        while "." in target and target not in known:
            target = target.rpartition(".")[0]
        if "." in target:
            yield target
            if (text == target or f"-m {target}" in text) and f"{target}.__main__" in known:
                yield f"{target}.__main__"


def syntax(tree: ast.AST) -> list[ast.AST]:
    """The parts of a tree that can refer to anything: imports, strings but for docstrings, paths, parameters;
    and every `if TYPE_CHECKING`.
    """
    found: list[ast.AST] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, REFERRING) or _is_for_types(node):
            found.append(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        for name in node._fields:
            value = getattr(node, name)
            if isinstance(value, list):
                waiting += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                waiting.append(value)
    return found


def texts(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    """(line, text) of every string; `f"api.{module}"` once with every other one filled in."""
    found = [
        (node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    fillings = sorted({text for _, text in found if text.isidentifier()})
    for node in nodes:
        if isinstance(node, ast.JoinedStr) and len(node.values) == 2 and isinstance(node.values[0], ast.Constant):
            begins = str(node.values[0].value)
            if re.fullmatch(r"(\w+\.)+", begins):
                found.extend((node.lineno, begins + filling) for filling in fillings)
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The dotted name after `from`, its leading dots resolved in `package`."""
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    parent = parts[: len(parts) - node.level + 1]
    return ".".join([*parent, node.module] if node.module else parent)


if __name__ == "__main__":
    sys.exit(main())
