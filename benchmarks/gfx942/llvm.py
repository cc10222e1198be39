"""LLVM as witness: assembles emitted text for gfx942 and compares its disassembly with the text.

Debian's package `llvm-19` has all that is needed; a tree of unpacked packages serves as well, named by the environment
variable `TTOPT_LLVM_DIR`.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from optimizer.errors import StateError, VerificationError
from optimizer.kernels.amdgpu.witness.errors import TextError
from optimizer.kernels.amdgpu.witness.interpreter.lds import swizzle_pattern
from optimizer.kernels.amdgpu.witness.interpreter.mfma import TABLE as MATRIX_TABLE
from optimizer.kernels.amdgpu.witness.interpreter.operands import Float, Integer, Name, Operand
from optimizer.kernels.amdgpu.witness.interpreter.parse import (
    COUNTER_LIMITS,
    Instruction,
    parse_instruction,
    parse_program,
)

VERSION = 19
DIRECTORY = "TTOPT_LLVM_DIR"
_TRIPLE = ("--triple=amdgcn-amd-amdhsa", "--mcpu=gfx942")
_ERROR = re.compile(r"<stdin>:(\d+):\d+: error: (.*)")
_DISASSEMBLED = re.compile(r"^\s+(\S.*?)\s*// ([0-9A-Fa-f]+): ((?:[0-9A-Fa-f]{8} ?)+)")
_FUNCTION = re.compile(r"name:\s+(\w+)$")
_NOP = re.compile(r"S_NOP (\d+)$")
_WAIT = re.compile(r"S_WAITCNT (\d+)$")
_SHORT_CONSTANT = re.compile(r"s_(movk|addk|mulk|cmpk)_")
_DEFAULTS = {**COUNTER_LIMITS, "row_mask": 15, "bank_mask": 15}
_BRANCH = re.compile(r"s_(branch|cbranch_\w+)$")


class DisassemblyError(VerificationError):
    """LLVM's disassembly differs from the text at `line`."""

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(message, node=f"line {line}")


@dataclass(frozen=True)
class Disassembled:
    """One instruction as LLVM reads it: `address` in bytes from the start of the section."""

    address: int
    text: str
    words: tuple[int, ...]


@dataclass(frozen=True)
class Llvm:
    """The tools of one LLVM installation; `environment` is what they need to find their libraries."""

    directory: Path
    suffix: str
    environment: Mapping[str, str]

    def tool(self, name: str) -> str:
        return str(self.directory / f"{name}{self.suffix}")

    def assemble(self, text: str) -> bytes:
        """The ELF object of a source text. Errors: `TextError` with LLVM's first complaint and its line."""
        command = [self.tool("llvm-mc"), *_TRIPLE, "--filetype=obj", "-o", "-", "-"]
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, env=dict(self.environment), check=False
        )
        if done.returncode != 0:
            message = done.stderr.decode("utf-8", "replace")
            found = _ERROR.search(message)
            if found is None:
                raise StateError(f"llvm-mc failed: {message.strip()[:500]}")
            raise TextError(f"LLVM: {found[2]}", int(found[1]))
        return done.stdout

    def disassemble(self, image: bytes) -> list[Disassembled]:
        """The instructions of an object's code."""
        with tempfile.NamedTemporaryFile(suffix=".o") as file:
            file.write(image)
            file.flush()
            command = [self.tool("llvm-objdump"), "-d", "--mcpu=gfx942", file.name]
            done = subprocess.run(command, capture_output=True, env=dict(self.environment), check=False)
        if done.returncode != 0:
            raise StateError(f"llvm-objdump failed: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
        found = []
        for line in done.stdout.decode().splitlines():
            if (match := _DISASSEMBLED.match(line)) is not None:
                words = tuple(int(word, 16) for word in match[3].split())
                found.append(Disassembled(int(match[2], 16), match[1], words))
        return found

    def wait_states(self, bodies: Mapping[str, str]) -> dict[str, int]:
        """Wait states that LLVM's hazard recogniser inserts into each body of post-allocation MIR, by name.

        A body is one basic block of machine instructions, one a line, without s_nop of its own.
        """
        found = self._machine_pass("post-RA-hazard-rec", bodies)
        return {
            name: sum(int(match[1]) + 1 for line in lines if (match := _NOP.match(line)) is not None)
            for name, lines in found.items()
        }

    def waits(self, bodies: Mapping[str, str]) -> dict[str, list[list[int]]]:
        """The 16 bits of every s_waitcnt that LLVM inserts before each instruction of each body of MIR, by name."""
        result: dict[str, list[list[int]]] = {}
        for name, lines in self._machine_pass("si-insert-waitcnts", bodies).items():
            before: list[list[int]] = [[]]
            for line in lines:
                if (match := _WAIT.match(line)) is not None:
                    before[-1].append(int(match[1]))
                else:
                    before.append([])
            result[name] = before[:-1]
        return result

    def _machine_pass(self, name: str, bodies: Mapping[str, str]) -> dict[str, list[str]]:
        """The instructions of each body after one pass of LLVM's code generator, one a line."""
        functions = (f"---\nname: {name}\nbody: |\n  bb.0:\n{_indent(body)}\n...\n" for name, body in bodies.items())
        command = [self.tool("llc"), "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx942", f"-run-pass={name}", "-x", "mir"]
        source = "".join(functions).encode()
        environment = dict(self.environment)
        done = subprocess.run(
            [*command, "-o", "-", "-"], input=source, capture_output=True, env=environment, check=False
        )
        if done.returncode != 0:
            raise StateError(f"llc failed: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
        found: dict[str, list[str]] = {body: [] for body in bodies}
        function, inside = "", False
        for line in done.stdout.decode().splitlines():
            if (start := _FUNCTION.match(line)) is not None:
                function, inside = start[1], False
            elif line.strip().startswith("bb.0"):
                inside = True
            elif line.strip() in ("...", ""):
                inside = False
            elif inside:
                found[function].append(line.strip())
        return found

    def check(self, text: str) -> int:
        """Assemble, disassemble, compare instruction by instruction; the number of instructions.

        Errors: `TextError` where LLVM refuses the text, `DisassemblyError` where it reads something else.
        """
        program = parse_program(text)
        read = self.disassemble(self.assemble(text))
        if len(read) != len(program.instructions):
            line = program.instructions[-1].line if program.instructions else 1
            raise DisassemblyError(f"{len(program.instructions)} instructions written, LLVM reads {len(read)}", line)
        places = {item.address: position for position, item in enumerate(read)}
        for written, item in zip(program.instructions, read, strict=True):
            if _BRANCH.match(written.mnemonic):
                _compare_branch(written, item, places, program.labels)
            else:
                _compare(written, parse_instruction(item.text, written.line, {}), item.text)
        return len(read)


@cache
def find_llvm() -> Llvm | None:
    """LLVM 19 from `TTOPT_LLVM_DIR`, the PATH or Debian's folder, None when there is none."""
    for directory, suffix, environment in _candidates():
        found = Llvm(directory, suffix, environment)
        if _knows_target(found):
            return found
    return None


def require_llvm() -> Llvm:
    """The same; errors: `StateError` that says how to get it."""
    found = find_llvm()
    if found is None:
        raise StateError(
            f"LLVM {VERSION} is not here: install Debian's llvm-{VERSION}, or unpack it and set {DIRECTORY}"
        )
    return found


def _candidates() -> Iterator[tuple[Path, str, Mapping[str, str]]]:
    plain = dict(os.environ)
    root = os.environ.get(DIRECTORY)
    if root:
        libraries = sorted({str(path.parent) for path in Path(root).rglob("lib*.so*")})
        paths = ":".join([*libraries, *filter(None, [plain.get("LD_LIBRARY_PATH")])])
        for tool in sorted(Path(root).rglob("bin/llvm-mc")):
            yield tool.parent, "", plain | {"LD_LIBRARY_PATH": paths}
    for name, suffix in ((f"llvm-mc-{VERSION}", f"-{VERSION}"), ("llvm-mc", "")):
        if (path := shutil.which(name)) is not None:
            yield Path(path).parent, suffix, plain
    yield Path(f"/usr/lib/llvm-{VERSION}/bin"), "", plain


def _knows_target(llvm: Llvm) -> bool:
    """Whether the tools run and are of the wanted version (older ones lack gfx942)."""
    for name in ("llvm-mc", "llvm-objdump"):
        try:
            command = [llvm.tool(name), "--version"]
            done = subprocess.run(command, capture_output=True, env=dict(llvm.environment), check=False, timeout=60)
        except OSError:
            return False
        if done.returncode != 0 or f"LLVM version {VERSION}." not in done.stdout.decode("utf-8", "replace"):
            return False
    return True


def _indent(body: str) -> str:
    return "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())


# -- comparison ----------------------------------------------------------------------------------------
def _compare_branch(
    written: Instruction, item: Disassembled, places: Mapping[int, int], labels: Mapping[str, int]
) -> None:
    distance = item.words[0] & 0xFFFF
    target = item.address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
    value = written.operands[0].value
    wanted = labels.get(value.text) if isinstance(value, Name) else None
    if item.text.split()[0] != written.mnemonic or wanted is None or places.get(target) != wanted:
        raise DisassemblyError(
            f"`{written.text}` became `{item.text}` to instruction {places.get(target)}", written.line
        )


def _compare(written: Instruction, read: Instruction, text: str) -> None:
    width = 16 if _SHORT_CONSTANT.match(written.mnemonic) else 64
    same = (
        _stem(written.mnemonic) == _stem(read.mnemonic)
        and (not written.suffix or written.suffix == read.suffix)
        and len(written.operands) == len(read.operands)
        and all(_same_operand(a, b, width) for a, b in zip(written.operands, read.operands, strict=True))
        and _modifiers(written) == _modifiers(read)
    )
    if not same:
        raise DisassemblyError(f"`{written.text}` became `{text}`", written.line)


def _stem(mnemonic: str) -> object:
    """Old and new spellings of an MFMA are one instruction."""
    return MATRIX_TABLE.get(mnemonic, mnemonic)


def _same_operand(a: Operand, b: Operand, width: int) -> bool:
    if (a.negate, a.absolute) != (b.negate, b.absolute):
        return False
    if isinstance(a.value, Integer | Float) and isinstance(b.value, Integer | Float):
        return bool({bits % (1 << width) for bits in _bits(a.value)} & {bits % (1 << width) for bits in _bits(b.value)})
    return a.value == b.value


def _bits(value: Integer | Float) -> set[int]:
    """The encodings that a constant may have: the assembler turns 0x3f800000 into 1.0 and 0xffffffff into -1."""
    if isinstance(value, Integer):
        return {value.value & 0xFFFFFFFFFFFFFFFF, value.value & 0xFFFFFFFF}
    return {int.from_bytes(struct.pack(form, value.value), "little") for form in ("<e", "<f", "<d")}


def _modifiers(instruction: Instruction) -> dict[str, int | str]:
    """Modifiers with their defaults left out."""
    found: dict[str, int | str] = {}
    for name, text in instruction.modifiers.items():
        try:
            number: int | str = int(text, 0)
        except ValueError:
            number = text
        if name == "bound_ctrl":
            number = 1
        if text.startswith("swizzle("):
            number = swizzle_pattern(text, instruction.line)
        default = _DEFAULTS.get(name, 0)
        if number != default:
            found[name] = number
    return found
