"""A command of ttopt run on one file in this process: what the fuzz targets of the kernel compilers share.

A payload is a line of JSON (command, options, name of the file) and the file's bytes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import io
import json
import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from optimizer.cli.parser import build_parser, parse
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.tensix.text import parse as parse_program

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
_INCLUDE = re.compile(r'#include (?:<cstdint>|"(?:api|internal)/[\w/]+\.h")', re.ASCII)
_DIRECTIVE = re.compile(
    r"\.(?:amdgcn_target|text|protected|globl|p2align|type|size|section|(?:end_)?amdhsa_kernel|amdhsa_\w+"
    r"|(?:end_)?amdgpu_metadata|L[\w.$]+_end:|\.\.|[\w.$]+:)(?: |$)", re.ASCII,
)  # fmt: skip


@functools.cache
def _parser() -> argparse.ArgumentParser:
    return build_parser()


def payload_of(name: str, arguments: list[str], content: bytes) -> bytes:
    """`arguments`: FILE stands for the file's path, DIR for an empty folder."""
    return json.dumps({"name": name, "arguments": arguments}).encode() + b"\n" + content


def run_payload(payload: bytes) -> str:
    """The command on the file, in this process. AssertionError if a text that it wrote holds what it must not."""
    head, _, content = payload.partition(b"\n")
    order = json.loads(head)
    with tempfile.TemporaryDirectory(prefix="ttopt-fuzz-") as folder:
        file, out = Path(folder) / order["name"], Path(folder) / "inner" / "out"
        file.write_bytes(content)
        given = [{"FILE": str(file), "DIR": str(out)}.get(a, a) for a in order["arguments"]]
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            args = parse(_parser(), given)
            try:
                status = args.run(args)
            except ExecutionError as error:  # a verdict on the program, not on us
                return f"verdict: {error.kind}"
        stdout.getvalue().encode()
        _check_files(Path(folder), file, out)
        if given[:2] == ["asm", "build"]:
            _check_assembly(stdout.getvalue())
        return f"status {status}"


def _check_files(folder: Path, source: Path, out: Path) -> None:
    for path in sorted(folder.rglob("*"), key=lambda path: (path.suffix != ".cpp", path)):
        if path.is_dir() or path == source:
            continue
        assert path.parent.parent == out, f"{path} is written outside of the folder"
        _FILES[path.name](path.read_bytes().decode("ascii"))


def _check_cpp(text: str) -> None:
    for line in re.split(r"[\n\r]", text):
        assert not line.lstrip().startswith("#") or _INCLUDE.fullmatch(line), line
        code = line.partition("//")[0]
        assert not set(code) & set("\"'\\@`$?") or _INCLUDE.fullmatch(line), line


def _check_launcher(text: str) -> None:
    """Nothing but what every launcher has stands on its top level, whatever the names of tensors."""
    docstring, *body = ast.parse(text).body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    known = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr, ast.FunctionDef, ast.If)
    assert all(isinstance(node, known) for node in body), [ast.unparse(node) for node in body]
    texts = [node for node in body if isinstance(node, ast.Expr)]
    assert all(isinstance(node.value, ast.Constant) for node in texts), [ast.unparse(node) for node in texts]
    defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    assert defined <= {"circular_buffer", "kernel", "launch"}, defined


_FILES: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("compute.cpp", "reader.cpp", "writer.cpp"), _check_cpp),
    "launch.py": _check_launcher,
    "manifest.json": json.loads,
    "program.ttl": parse_program,
}
"""File of a kernel -> what reads it."""


def _check_assembly(text: str) -> None:
    metadata = False
    for line in text.split("\n"):
        if ".amdgpu_metadata" in line:
            metadata = True
        code = line.strip().partition(";")[0]
        assert line.isprintable(), line
        assert metadata or not code.startswith(".") or _DIRECTIVE.match(code), line


def one_match(pattern: str, text: str, rng: random.Random, made: Callable[[re.Match[str]], str]) -> str:
    """One match of a pattern becomes something else."""
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + made(match) + text[match.end() :]
