"""Fails where modules of the packages import each other in a circle, and names every such circle.

    python scripts/import_circles.py [ROOT]

Every import that a file states counts: at its head, inside functions and under `TYPE_CHECKING`. The last two load
nothing at start-up, but a file that names another one's types or calls it later cannot be read without it either.
Names that are looked up as text (registries, entry points, lazy `__getattr__`) are no imports.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import networkx

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("optimizer", "api")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="the folder that holds the packages")
    graph = import_graph(parser.parse_args().root)
    found = circles(graph)
    for number, members in enumerate(found, 1):
        print(f"circle {number} of {len(found)}: {len(members)} modules import each other", file=sys.stderr)
        for importer, imported in networkx.find_cycle(graph.subgraph(members), members[0]):
            print(f"  {graph.edges[importer, imported]['place']} imports {imported}", file=sys.stderr)
        print(f"  all: {', '.join(members)}", file=sys.stderr)
    if not found:
        print(f"no circles among {len(graph)} modules")
    return 1 if found else 0


def circles(graph: networkx.DiGraph[str]) -> list[list[str]]:
    """The strongly connected components of more than one module; names in order within each, and the circles too."""
    return sorted(sorted(found) for found in networkx.strongly_connected_components(graph) if len(found) > 1)


def import_graph(root: Path) -> networkx.DiGraph[str]:
    """An edge from every module below `root` to each that it imports, with the first `place`: `path:line`.

    Raises FileNotFoundError where a package is missing: a check of nothing must not pass.
    """
    files = modules(root)
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(files)
    for name, path in files.items():
        for line, imported in imports(name, path, frozenset(files)):
            if imported != name and not graph.has_edge(name, imported):
                graph.add_edge(name, imported, place=f"{path.relative_to(root)}:{line}")
    return graph


def modules(root: Path) -> dict[str, Path]:
    """The file of every module of the packages, by dotted name; a package is its `__init__.py`."""
    found = {}
    for package in PACKAGES:
        if not (root / package).is_dir():
            raise FileNotFoundError(f"{root} holds no folder {package}")
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: frozenset[str]) -> Iterator[tuple[int, str]]:
    """(line, module) for every import statement of the module `name` that reaches a module of `known`."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, package)
            for alias in node.names:
                target = f"{source}.{alias.name}" if f"{source}.{alias.name}" in known else source
                if target in known:
                    yield node.lineno, target


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The dotted name after `from`, its leading dots resolved in `package`."""
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    parent = parts[: len(parts) - node.level + 1]
    return ".".join([*parent, node.module] if node.module else parent)


if __name__ == "__main__":
    sys.exit(main())
