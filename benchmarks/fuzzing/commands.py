"""A command of ttopt run on files in this process: what the fuzz targets of commands share.

A payload is a line of JSON (command, options, names and sizes of the files) and the files' bytes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import io
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from optimizer.cli.parser import build_parser, parse
from optimizer.errors import TimeLimitError, VerificationError
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.tensix.source.text import parse as parse_program

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
_INCLUDE = re.compile(r'#include (?:<cstdint>|"(?:api|internal)/[\w/]+\.h")', re.ASCII)
_DIRECTIVE = re.compile(
    r"\.(?:amdgcn_target|text|protected|globl|p2align|type|size|section|(?:end_)?amdhsa_kernel|amdhsa_\w+"
    r"|(?:end_)?amdgpu_metadata|L[\w.$]+_end:|\.\.|[\w.$]+:)(?: |$)", re.ASCII,
)  # fmt: skip


@functools.cache
def _parser() -> argparse.ArgumentParser:
    return build_parser()


def payload_of(name: str, arguments: list[str], content: bytes, **others: bytes) -> bytes:
    """`arguments`: FILE stands for the file's path, DIR for an empty folder. `others`: files beside it, by their names
    with `_` for the dot; as an argument, `./` and the name."""
    sizes = {name.replace("_", "."): len(data) for name, data in others.items()}
    head = {"name": name, "arguments": arguments, **({"others": sizes} if sizes else {})}
    return json.dumps(head).encode() + b"\n" + b"".join(others.values()) + content


def run_payload(payload: bytes) -> str:
    """What became of the command on the files. AssertionError if a text that it wrote holds what it must not."""
    return run_command(payload)[0]


def run_command(payload: bytes) -> tuple[str, str]:
    """The same, and what it wrote to stdout; in this process."""
    head, _, content = payload.partition(b"\n")
    order = json.loads(head)
    with tempfile.TemporaryDirectory(prefix="ttopt-fuzz-") as folder:
        file, out = Path(folder) / order["name"], Path(folder) / "inner" / "out"
        for name, size in order.get("others", {}).items():
            (Path(folder) / name).write_bytes(content[:size])
            content = content[size:]
        file.write_bytes(content)
        given = [{"FILE": str(file), "DIR": str(out)}.get(a, a) for a in order["arguments"]]
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(io.StringIO()), contextlib.chdir(folder):
            try:
                args = parse(_parser(), given)
                args.began = time.monotonic()
                status = args.run(args)
            except ExecutionError as error:  # a verdict on the program, not on us
                return f"verdict: {error.kind}", ""
            except VerificationError:
                return "wrong plan", ""
            except TimeLimitError:
                return "out of the time that it was given", ""
            except OSError as error:
                if error.filename is None:
                    raise
                return "no such file", ""
        stdout.getvalue().encode()
        if given[0] in ("kernel", "asm"):
            _check_files(Path(folder), file, out)
        if given[:2] == ["asm", "build"]:
            _check_assembly(stdout.getvalue())
        return f"status {status}", stdout.getvalue()


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
