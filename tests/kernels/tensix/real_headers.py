"""Emitted kernels against the real headers of the installed ttnn: many kernels in one translation unit per processor.

tt-metal's own sources (`trisck.cc`, `brisck.cc`, `ncrisck.cc`) include the kernels as they do on a device: the compute
kernel three times, for the processors that unpack, do the maths and pack. g++ checks the types for 32 bits, without
making code. What tt-metal's compiler would bring (`sfpi.h`) and what tt-metal generates is in `stand_ins`. With the
compiler itself, the same units are compiled without stand-ins for it.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.executor.execute import COMPILER, has_compiler
from optimizer.opmodel.ttmetal import environment, simulator

STAND_INS = Path(__file__).parent / "stand_ins"
ARCHITECTURES = {"wormhole": "wormhole_b0", "blackhole": "blackhole"}
"""As folders of tt-metal's hardware headers -> as folders of the LLK."""


@dataclass(frozen=True)
class Processor:
    """One of the five small processors of a Tensix core."""

    name: str
    kind: str
    """Of the kernels that it runs."""
    source: str
    """Of tt-metal's firmware, which includes `included`."""
    included: str
    defines: tuple[str, ...]


PROCESSORS = (
    Processor("unpack", "compute", "trisck.cc", "chlkc_unpack.cpp", ("UCK_CHLKC_UNPACK", "COMPILE_FOR_TRISC=0")),
    Processor("math", "compute", "trisck.cc", "chlkc_math.cpp", ("UCK_CHLKC_MATH", "COMPILE_FOR_TRISC=1")),
    Processor("pack", "compute", "trisck.cc", "chlkc_pack.cpp", ("UCK_CHLKC_PACK", "COMPILE_FOR_TRISC=2")),
    Processor("reader", "reader", "ncrisck.cc", "kernel_includes.hpp", ("COMPILE_FOR_NCRISC", "NOC_INDEX=0")),
    Processor("writer", "writer", "brisck.cc", "kernel_includes.hpp", ("COMPILE_FOR_BRISC", "NOC_INDEX=1")),
)
_DEFINES = (
    "NUM_DRAM_BANKS=12", "NUM_L1_BANKS=72", "IS_NOT_POW2_NUM_DRAM_BANKS=1", "IS_NOT_POW2_NUM_L1_BANKS=1",
    "PCIE_NOC_X=0", "PCIE_NOC_Y=3", "TENSIX_FIRMWARE", "LOCAL_MEM_EN=0", "ROUTING_FW_ENABLED", "KERNEL_BUILD",
    "PROGRAMMABLE_CORE_TYPE=0", "DISPATCH_MESSAGE_ADDR=0xffb70438", "NOC_MODE=0",
    f"KERNEL_COMPILE_TIME_ARGS={','.join(['2,2048'] * 32)}",
)  # fmt: skip
"""What tt-metal hands to its compiler. The arguments are those of 32 interleaved tensors of 16 bits in DRAM."""
_WARNINGS = ("-Wall", "-Werror", "-Wno-unused-variable", "-Wno-unused-function", "-Wno-attributes")
"""As tt-metal's, but for the deprecated, which it allows."""
_TT_METAL = (
    "-std=c++17", "-ftt-nttp", "-ftt-constinit", "-ftt-consteval", "-ftt-no-dyninit", "-fno-exceptions", "-fno-rtti",
    "-ffast-math", "-fno-finite-math-only", "-fsigned-zeros", "-fno-associative-math", "-fno-use-cxa-atexit",
    "--param=min-pagesize=0",
)  # fmt: skip
"""Other options of tt-metal's own compiler."""


def lacking() -> str | None:
    """Why there is nothing to check with here; None if there is."""
    if not has_compiler() or platform.machine() != "x86_64":
        return f"no {COMPILER} that makes 32-bit code"
    return None if find_spec("ttnn") else "ttnn is not installed"


def lacking_compiler() -> str | None:
    """Why tt-metal's own compiler cannot be asked; None if it can."""
    if not find_spec("ttnn"):
        return "ttnn is not installed"
    try:
        simulator.compiler_folder(environment.wheel_folder())
    except environment.EnvironmentProblem as problem:
        return str(problem)
    return None


def findings(
    kernels: Sequence[tuple[str, KernelSource]], processor: Processor, arch: str, wide: bool, folder: Path
) -> dict[str, list[str]]:
    """What g++ finds wrong with kernels, by their names; what is wrong elsewhere is under the file's name."""
    _write(kernels, processor, folder)
    command = [COMPILER, "-m32", "-std=c++20", "-x", "c++", *_options(processor, arch, wide, folder)]
    command += [f"-isystem{path}" for path in _standard_folders()]
    whole = _run([*command, "-E", str(_firmware() / processor.source)])
    checked = [COMPILER, "-m32", "-std=c++20", "-fsyntax-only", "-fpreprocessed", *_WARNINGS, "-x", "c++", "-"]
    return _by_kernel(whole) or _by_kernel(_run(checked, _for_older_compilers(whole.stdout)))


def compiled(
    kernels: Sequence[tuple[str, KernelSource]], processor: Processor, arch: str, wide: bool, folder: Path
) -> dict[str, list[str]]:
    """What tt-metal's compiler says to kernels, by their names."""
    _write(kernels, processor, folder)
    sfpi = simulator.compiler_folder(environment.wheel_folder())
    machine = f"-mcpu=tt-{'wh' if arch == 'wormhole' else 'bh'}"
    machine, level = (f"{machine}-tensix", "-O3") if processor.kind == "compute" else (machine, "-O2")
    command = [str(sfpi / simulator.COMPILER), machine, level, *_TT_METAL, *_WARNINGS]
    command += _options(processor, arch, wide, folder, sfpi / "include")
    command += ["-S", "-o", "/dev/null", str(_firmware() / processor.source)]
    return _by_kernel(_run(command))


def _write(kernels: Sequence[tuple[str, KernelSource]], processor: Processor, folder: Path) -> None:
    """The file that tt-metal's source includes: every kernel in a namespace, as its entry has the same name in all.

    Headers come first, for they may not be in a namespace. The marker of a line (not `#line`, which keeps it) says that
    a kernel is no header of the system, although one includes it.
    """
    side = f"#define TRISC_{processor.name.upper()}" if processor.kind == "compute" else ""
    headers: dict[str, None] = {}
    parts: list[str] = []
    for name, kernel in kernels:
        lines = kernel.text.splitlines()
        headers |= dict.fromkeys(line for line in lines if line.startswith("#include"))
        rest = ["" if line.startswith("#include") else line for line in lines]
        parts.append("\n".join([f"namespace kernel_{name} {{", f'# 1 "{name}"', *rest, "}"]))
    entry = "void kernel_main();"
    (folder / processor.included).write_text("\n".join([side, entry, *headers, *parts, ""]), encoding="utf-8")


def _options(processor: Processor, arch: str, wide: bool, folder: Path, compiler: Path | None = None) -> list[str]:
    number = PROCESSORS.index(processor)
    defines = (f"ARCH_{arch.upper()}", f"PROCESSOR_INDEX={number}", f"BUFFER_FORMAT={0 if wide else 5}")
    found = [f"-D{d}" for d in (*_DEFINES, *processor.defines, *defines, f"WIDE_DST={str(wide).lower()}")]
    found += [f"-I{folder}", f"-I{STAND_INS / 'tt_metal'}"]
    # As headers of the system: what they do among themselves is not the kernels' fault.
    return [*found, *(f"-isystem{path}" for path in (compiler or STAND_INS / "compiler", *_headers(arch)))]


def api_header(name: str) -> Path:
    """A header of the kernel API, by its path below `api`."""
    return _wheel() / "tt_metal" / "hw" / "inc" / "api" / name


def _wheel() -> Path:
    found = find_spec("ttnn")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _firmware() -> Path:
    return _wheel() / "tt_metal" / "hw" / "firmware" / "src" / "tt-1xx"


def _headers(arch: str) -> list[Path]:
    """Folders that tt-metal gives to its compiler, in its order."""
    llk, metal = ARCHITECTURES[arch], _wheel() / "tt_metal"
    own, machine = metal / "hw" / "ckernels" / llk / "metal", metal / "hw" / "inc" / "internal" / "tt-1xx"
    return [
        _wheel(), _wheel() / "ttnn", _wheel() / "ttnn" / "cpp", metal / "hw" / "inc", metal / "tt-llk" / "common",
        metal / "tt-llk" / "tools" / "include", metal / "hostdevcommon" / "api", metal / "api", own / "common",
        own / "llk_io", machine, machine / arch, machine / arch / f"{llk}_defines", machine / arch / "noc",
        metal / "tt-llk" / f"tt_llk_{llk}" / "common" / "inc", metal / "tt-llk" / f"tt_llk_{llk}" / "llk_lib",
        own / "llk_api", own / "llk_api" / "llk_sfpu", _firmware(),
    ]  # fmt: skip


@cache
def _standard_folders() -> tuple[str, ...]:
    """Where g++ looks for 64 bits: of the 32-bit variant only the compiler itself need be there."""
    said = _run([COMPILER, "-E", "-v", "-x", "c++", "/dev/null"]).stderr
    listed = said.partition("#include <...> search starts here:")[2].partition("End of search list")[0]
    return tuple(listed.split())


_UNROLL = re.compile(r"^#pragma GCC unroll.*$", re.MULTILINE)
_NEVER = re.compile(r"static_assert\(\s*false\s*,(.*?)\);", re.DOTALL)


def _for_older_compilers(text: str) -> str:
    """Two things that g++ takes since versions 13 and 15: an assertion that fails where it is instantiated only, and
    unrolling by a template's parameter."""
    return _NEVER.sub(r"[]<bool never = false>() { static_assert(never,\1); }();", _UNROLL.sub("", text))


_LINE = re.compile(r"([^:]+):(?:\d+:\d+:)?\s+(In |At |required from here|(?:fatal )?error: |warning: )(.*)")


def _by_kernel(done: subprocess.CompletedProcess[str]) -> dict[str, list[str]]:
    """Complaints by file, those about a template by the file that asked for it: files are kernels' names."""
    found: dict[str, list[str]] = {}
    asking = ""
    for line in filter(None, map(_LINE.match, done.stderr.splitlines())):
        place, what, rest = line.groups()
        if what in ("In ", "At "):
            asking = ""
        elif what == "required from here":
            asking = place
        else:
            found.setdefault(asking or place, []).append(rest)
    if done.returncode and not found:
        found[done.args[0]] = done.stderr.splitlines() or [f"exit code {done.returncode}"]
    return found


def _run(command: list[str], given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False)
