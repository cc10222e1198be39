"""Which files of the checkout depend on which, read off their text: imports, fixtures, and files and folders they name.

A node is the path of a file, a folder with the names of what it holds (`fixtures/onnx/`), or a fixture
(`tests/conftest.py::golden`); an edge leads to what a node depends on.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import pickle
import re
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path, PurePosixPath

import networkx

from optimizer import families
from scripts import import_circles
from scripts.import_circles import PACKAGES, How, module_name, references, syntax, texts

FILE_NAME = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*")
KEPT = ".pytest_cache/file_graph.pickle"
FAMILIES = families.__name__.replace(".", "/")
"""Their modules are imported by names that are put together of a family and the aspect that is asked for."""
RUN_BY_PAGES = ("benchmarks/", "scripts/", "fixtures/")
"""Files that a page names here take part in its commands, which a test runs."""


@dataclass(frozen=True)
class Source:
    """A Python file, parsed."""

    path: str
    nodes: list[ast.AST]
    body: list[ast.stmt]
    """Of a conftest file only: the trees of all files would take a gigabyte."""

    @cached_property
    def asked_for(self) -> frozenset[str]:
        """Names that may be fixtures that the file asks for: parameters and strings."""
        parameters = {node.arg for node in self.nodes if isinstance(node, ast.arg)}
        return frozenset(parameters.union(text for _, text in texts(self.nodes)))


@dataclass(frozen=True)
class Tree:
    """The files of a checkout and how they are found by name."""

    root: Path
    files: Collection[str]
    """Those that are there, and those that are gone since the revision compared with."""
    sources: dict[str, Source] = field(default_factory=dict)

    @cached_property
    def modules(self) -> dict[str, str]:
        """Path by dotted name, from the root and from every folder that is on the path of tests or scripts."""
        found = {}
        for folder in ("", *_search_path(self.root)):
            for path in self.files:
                if path.endswith(".py") and path.startswith(folder):
                    found.setdefault(module_name(PurePosixPath(path.removeprefix(folder))), path)
        return found

    @cached_property
    def by_base_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.files:
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset(f"{parent}/" for path in self.files for parent in PurePosixPath(path).parents[:-1])

    def named(self, text: str, *, alone: bool) -> Iterator[str]:
        """Files and folders that a text names by the end of their path; `alone`: it is a path and nothing else.

        A file by its base name at least, where there are `*` with its folder; modules of the packages are imported
        instead. A folder by two names, or from the root.
        """
        for name in FILE_NAME.findall(text):
            folder, _, base = name.rpartition("/")
            if "*" in base:
                if "*" not in folder.rpartition("/")[2] and folder and base.strip("*."):
                    yield from (path for path in self.files if _ends(path, name) and not path.endswith(".py"))
            elif base in self.by_base_name:
                yield from (path for path in self.by_base_name[base] if _ends(path, name) and _is_read(path))
            elif "*" not in name and (folder or (alone and f"{name}/" in self.folders)):
                yield from (path for path in self.folders if f"/{path}".endswith(f"/{name}/"))


def file_graph(root: Path, files: Collection[str]) -> networkx.DiGraph[str]:
    """The dependences of these files of a checkout: paths from its root, of which some may be gone."""
    tree = Tree(root, sorted(files))
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    graph.add_nodes_from(tree.files)
    for path in [*tree.folders, *tree.files]:
        if (folder := folder_of(path)) and not path.endswith(".py"):
            graph.add_edge(folder, path)
    tree.sources.update(_sources(root, [path for path in tree.files if path.endswith(".py")]))
    for path in tree.files:
        if path.endswith(".md") and (root / path).is_file():
            page = tree.named((root / path).read_text(encoding="utf-8"), alone=False)
            graph.add_edges_from((path, name) for name in page if name.startswith(RUN_BY_PAGES))
    for source in tree.sources.values():
        if not source.path.endswith("/conftest.py"):
            graph.add_edges_from((source.path, target) for target in _depends(tree, source, source.nodes))
    for node, target in _fixture_edges(tree):
        graph.add_edge(node, target)
    graph.add_edges_from(list(_edges_to_unnamed(tree, graph)))
    return graph


def _sources(root: Path, paths: list[str]) -> dict[str, Source]:
    """Those of the files that are there; a file that is as it was the last time is not parsed again."""
    kept = root / KEPT
    scripts = hashlib.sha256(b"".join(Path(place).read_bytes() for place in (__file__, import_circles.__file__)))
    version = f"{sys.version} {scripts.hexdigest()}"
    before, stored = pickle.loads(kept.read_bytes()) if kept.is_file() else ("", {})
    found: dict[str, tuple[tuple[int, int], Source]] = {}
    gc.disable()  # there are no circles, and looking for them would take as long as the parsing
    for path in paths:
        if (root / path).is_file():
            status = (root / path).stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if before == version and path in stored and stored[path][0] == stamp:
                found[path] = stored[path]
            else:
                tree = ast.parse((root / path).read_bytes(), path)
                found[path] = (stamp, Source(path, syntax(tree), tree.body if path.endswith("/conftest.py") else []))
    gc.enable()
    if found.keys() != stored.keys() or any(found[path] is not stored[path] for path in found):
        kept.parent.mkdir(exist_ok=True)
        whole = kept.with_suffix(".new")
        whole.write_bytes(pickle.dumps((version, found)))
        whole.replace(kept)
    return {path: source for path, (_, source) in found.items()}


def folder_of(path: str) -> str:
    """The folder that holds a file or folder, with `/` at its end; empty where that is the root."""
    return path.rstrip("/").rpartition("/")[0] and f"{path.rstrip('/').rpartition('/')[0]}/"


def is_test(path: str) -> bool:
    """Whether pytest collects the file."""
    return path.startswith("tests/") and re.fullmatch(r"test_\w+\.py", path.rpartition("/")[2]) is not None


def _search_path(root: Path) -> list[str]:
    """The folders that a test or a script imports from besides the root, each with `/` at its end."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [f"{folder}/" for folder in (*settings["tool"]["pytest"]["ini_options"]["pythonpath"], "scripts")]


def _ends(path: str, pattern: str) -> bool:
    return path == pattern or path.endswith(f"/{pattern}") or ("*" in pattern and fnmatch(f"/{path}", f"*/{pattern}"))


def _is_read(path: str) -> bool:
    return not (path.endswith(("/__init__.py", "/conftest.py")) or (path.endswith(".py") and path.startswith(PACKAGES)))


def _depends(tree: Tree, source: Source, nodes: list[ast.AST]) -> Iterator[str]:
    """The files and folders that these parts of a source import or name."""
    name = module_name(PurePosixPath(source.path))
    for found in references(name, source.path.endswith("/__init__.py"), nodes, tree.modules):
        if found.how != How.TYPES:
            yield tree.modules[found.module]
        if found.module == families.__name__:
            asked = {f"{families.ASPECTS[text]}.py" for _, text in texts(nodes) if text in families.ASPECTS}
            modules = (PurePosixPath(path) for path in tree.files if path.startswith(f"{FAMILIES}/"))
            yield from (str(path) for path in modules if path.name in asked)
    packaged = source.path.startswith(PACKAGES)  # whose messages name pages and scripts for people
    for text, alone in _path_texts(nodes):
        yield from (path for path in tree.named(text, alone=alone) if not packaged or path.startswith(PACKAGES))


def _path_texts(nodes: list[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Strings that may name files, with `*` for what is filled in; and whether it is a path that code puts together.

    `root / "fixtures" / f"{name}.json"` says `fixtures/*.json`.
    """
    inner: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and id(node) not in inner:
            parts: list[str] = []
            part: ast.expr = node
            while isinstance(part, ast.BinOp) and (text := _pattern(part.right)) is not None:
                inner |= {id(part.left), id(part.right)}
                parts.insert(0, text)
                part = part.left
            yield "/".join(parts), True
    for node in nodes:
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in inner:
            yield _pattern(node) or "", False


def _pattern(node: ast.expr) -> str | None:
    """The text of a string with `*` for what is filled in; None where it is none."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _fixture_edges(tree: Tree) -> Iterator[tuple[str, str]]:
    """From tests to the conftest files above them and to those of their fixtures that they ask for, and on from these.

    A conftest file itself stands for its hooks, which take part in every test.
    """
    parts = {path: _conftest_parts(source) for path, source in tree.sources.items() if path.endswith("/conftest.py")}
    for path, source in tree.sources.items():
        above = [conftest for conftest in parts if path.startswith(conftest.removesuffix("conftest.py"))]
        above.sort(key=len, reverse=True)
        if path in parts:
            for name, nodes in parts[path].items():
                node = f"{path}::{name}" if name else path
                yield from ((node, target) for target in _depends(tree, source, nodes))
                asked = {n.arg for n in nodes if isinstance(n, ast.arg)} - {name}
                yield from ((node, fixture) for fixture in _fixtures(asked, above, parts))
                yield (node, path)
        elif is_test(path):
            yield from ((path, conftest) for conftest in above)
            yield from ((path, fixture) for fixture in _fixtures(source.asked_for, above, parts))
            used = [f"{conftest}::{name}" for conftest in above for name in _always_used(tree.sources[conftest])]
            yield from ((path, fixture) for fixture in used)


def _fixtures(asked: Collection[str], above: list[str], parts: dict[str, dict[str, list[ast.AST]]]) -> Iterator[str]:
    """Of the fixtures of the conftest files `above`, the nearest first, those asked for by name."""
    for name in sorted(asked):
        nearest = next((conftest for conftest in above if name and name in parts[conftest]), None)
        if nearest is not None:
            yield f"{nearest}::{name}"


def _conftest_parts(source: Source) -> dict[str, list[ast.AST]]:
    """The syntax of every fixture with all that it uses of the file, by name; that of the hooks under no name."""
    defined = {name: meaning for statement in source.body for name, meaning in _bound(statement)}
    functions = [statement for statement in source.body if isinstance(statement, ast.FunctionDef)]
    parts = {f.name: _with_used([f], defined) for f in functions if _is_fixture(f)}
    return {**parts, "": _with_used([f for f in functions if f.name.startswith("pytest_")], defined)}


def _with_used(statements: list[ast.FunctionDef], defined: dict[str, ast.stmt]) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    taken: set[int] = set()
    waiting: list[ast.stmt] = list(statements)
    while waiting:
        statement = waiting.pop()
        if id(statement) not in taken:
            taken.add(id(statement))
            nodes += syntax(statement)
            used = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
            waiting += [defined[name] for name in used if name in defined]
    return nodes


def _bound(statement: ast.stmt) -> list[tuple[str, ast.stmt]]:
    """The names that a statement of a module gives a meaning, each with that; of an import its own part only."""
    if isinstance(statement, ast.ImportFrom):
        one = [ast.ImportFrom(statement.module, [alias], statement.level, lineno=0) for alias in statement.names]
        return [(part.names[0].asname or part.names[0].name, part) for part in one]
    if isinstance(statement, ast.Import):
        return [((alias.asname or alias.name).partition(".")[0], statement) for alias in statement.names]
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [(statement.name, statement)]
    stored = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return [(name, statement) for name in stored]


def _is_fixture(function: ast.FunctionDef, option: str = "") -> bool:
    return any("pytest.fixture" in text and option in text for text in map(ast.unparse, function.decorator_list))


def _always_used(source: Source) -> list[str]:
    functions = [statement for statement in source.body if isinstance(statement, ast.FunctionDef)]
    return [function.name for function in functions if _is_fixture(function, "autouse=True")]


def _edges_to_unnamed(tree: Tree, graph: networkx.DiGraph[str]) -> Iterator[tuple[str, str]]:
    """To every data file that no file names, from the Python files of the nearest folder that has some."""
    beside: dict[str, list[str]] = {}
    for path in tree.sources:
        beside.setdefault(folder_of(path), []).append(path)
    for path in tree.files:
        if path.endswith((".py", ".md")) or any(p in tree.sources for p in graph.predecessors(path)):
            continue
        folder = folder_of(path)
        while folder and folder not in beside:
            folder = folder_of(folder)
        yield from ((source, path) for source in beside.get(folder, []))
