"""What tt-metal needs around it to open a device without hardware, and all of it for a *mock* one.

Standard library only and no import of `optimizer`: the child process loads this file by its path, possibly
under another interpreter. tt-metal reads its environment once, so everything here happens before the first
`import ttnn`, and one process is one board.

The wheel brings everything but a RISC-V compiler for its kernels. A mock device never runs a kernel, so an
overlay folder of our own - symlinks into the wheel, whose files stay untouched - holds a stand-in compiler
(a shell script) that links every kernel to the same smallest acceptable ELF file.
"""

import hashlib
import importlib.util
import os
import re
import stat
import struct
import tempfile
from pathlib import Path

CLUSTERS = Path(__file__).resolve().parent / "clusters"
"""Board name + `.yaml` -> the cluster description that tt-metal opens as a mock device."""

TEXT_ADDRESS = 0x10000

COMPILER = """#!/bin/sh
# Stand-in for the RISC-V compiler: a mock device runs no kernel, so every link gives the same small ELF file.
here=${0%/*}
if [ "$1" = "--version" ]; then exec cat "$here/version.txt"; fi
out= deps= before= step=link
for word in "$@"; do
  case "$before" in -o) out=$word ;; -MF) deps=$word ;; esac
  case "$word" in -c | c++-header) step=compile ;; esac
  before=$word
done
[ -n "$deps" ] && echo "$out:" > "$deps"
if [ "$step" = link ]; then exec cp "$here/smallest.elf" "$out"; fi
: > "$out"
"""


class EnvironmentProblem(Exception):
    """The surroundings cannot be made; the text says what is missing and where."""


def boards() -> list[str]:
    """Boards that have a mock cluster description, sorted."""
    return sorted(path.stem for path in CLUSTERS.glob("*.yaml"))


def wheel_folder() -> Path:
    """The installed `ttnn` package, found without importing it."""
    spec = importlib.util.find_spec("ttnn")
    if spec is None or spec.origin is None:
        raise EnvironmentProblem("the package ttnn is not installed")
    return Path(spec.origin).resolve().parent


def cache_folder() -> Path:
    """Where ttopt keeps what can be made again: `$XDG_CACHE_HOME/ttopt`, else `~/.cache/ttopt`.

    Where neither can be written (no HOME, a read-only one), a folder of this user's own in the temporary
    directory; one that belongs to somebody else is an EnvironmentProblem, never used.
    """
    base, home = os.environ.get("XDG_CACHE_HOME") or "", os.environ.get("HOME") or ""
    folder = None
    if os.path.isabs(base):
        folder = Path(base) / "ttopt"
    elif os.path.isabs(home) and os.path.isdir(home):  # a home that is not there is not made
        folder = Path(home) / ".cache" / "ttopt"
    return folder if folder is not None and _writable(folder) else _temporary_folder()


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"ttopt-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise EnvironmentProblem(f"no folder for temporary files: {error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise EnvironmentProblem(f"{folder} belongs to somebody else or others may write to it; remove it")
    return folder


def root_folder(version: str, wheel: Path) -> Path:
    """The overlay's place: another version, or the same one installed elsewhere, gets its own."""
    key = hashlib.blake2b(str(wheel).encode("utf-8", "surrogateescape"), digest_size=5).hexdigest()
    return cache_folder() / "ttmetal" / f"{version}-{key}"


def prepare_mock(board: str, version: str) -> Path:
    """Make the overlay and point this process's environment at it; returns the overlay's root.

    Whatever the caller's environment says about tt-metal (a source tree, slow dispatch, ...) is dropped, as
    it would change the answers.
    """
    cluster = CLUSTERS / f"{board}.yaml"
    if not cluster.is_file():
        raise EnvironmentProblem(f"no mock cluster description for board '{board}'; there are: {', '.join(boards())}")
    wheel = wheel_folder()
    root = root_folder(version, wheel)
    try:
        overlay = make_overlay(root / "overlay", wheel)
        kernels = root / f"kernels-{board}"
        kernels.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {root}: {error}") from error
    set_variables(overlay, kernels, root, TT_METAL_MOCK_CLUSTER_DESC_PATH=str(cluster))
    return root


def set_variables(overlay: Path, kernels: Path, root: Path, **others: str) -> None:
    """Make this process's environment that of a device without hardware; the caller's own for tt-metal is dropped."""
    for name in [n for n in os.environ if n.startswith(("TT_METAL", "TTNN_", "TT_LOGGER", "ARCH_NAME"))]:
        del os.environ[name]
    os.environ.update(_variables(overlay, kernels, root), **others)


def _variables(overlay: Path, kernels: Path, root: Path) -> dict[str, str]:
    return {
        "TT_METAL_RUNTIME_ROOT": str(overlay),
        "TT_METAL_HOME": str(overlay),
        "TT_METAL_CACHE": str(kernels),
        "TT_METAL_LOGS_PATH": str(root),  # else a folder `generated` appears where the user is
        "HOME": str(root),  # tt-metal dies without one, and has nothing to look for in the user's
        "TT_METAL_INSPECTOR": "0",
        "TT_METAL_INSPECTOR_RPC": "0",
        "TT_METAL_DISABLE_BACKTRACE": "1",
        "TT_METAL_LOGGER_LEVEL": "FATAL",
        "TT_LOGGER_LEVEL": "off",
        "LOGURU_LEVEL": "ERROR",
        "TTNN_CONFIG_OVERRIDES": '{"enable_fast_runtime_mode": true}',
    }


# -- overlay -----------------------------------------------------------------------------------------------
def make_overlay(overlay: Path, wheel: Path) -> Path:
    """A runtime root: symlinks to the wheel's entries, and `runtime/sfpi` of our own. Several processes may run it."""
    compiler = overlay / "runtime" / "sfpi" / "compiler" / "bin"
    compiler.mkdir(parents=True, exist_ok=True)
    link_wheel(overlay, wheel)
    _replace(compiler / "version.txt", version_text(wheel).encode("ascii"))
    _replace(compiler / "smallest.elf", smallest_elf())
    _replace(compiler / "riscv-tt-elf-g++", COMPILER.encode("ascii"))
    return overlay


def link_wheel(overlay: Path, wheel: Path) -> Path:
    """Symlinks to the wheel's entries, all but its compiler."""
    (overlay / "runtime").mkdir(parents=True, exist_ok=True)
    _link_entries(wheel, overlay, ("runtime", "__pycache__"))
    if (wheel / "runtime").is_dir():
        _link_entries(wheel / "runtime", overlay / "runtime", ("sfpi",))
    return overlay


def _link_entries(source: Path, target: Path, left_out: tuple[str, ...]) -> None:
    for entry in sorted(source.iterdir()):
        link = target / entry.name
        if entry.name in left_out or link.is_symlink():
            continue
        try:
            link.symlink_to(entry)
        except FileExistsError:
            if not link.is_symlink():  # another process was quicker, or somebody put a file here
                raise


def _replace(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, unless it is there as wanted."""
    if path.is_file() and path.read_bytes() == data:
        return
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(data)
    new.chmod(0o755)
    new.replace(path)


def version_text(wheel: Path) -> str:
    """What the compiler answers to `--version`: tt-metal finds the wheel's compiled firmware by it.

    The firmware itself names its compiler in the ELF section `.comment`, so a newer wheel needs no edit here.
    """
    for path in sorted((wheel / "tt_metal" / "pre-compiled").glob("*/brisc/brisc.elf")):
        found = re.search(rb"GCC: \((tenstorrent/sfpi:[^)]+)\) ([0-9.]+)", path.read_bytes())
        if found:
            name, version = (part.decode("ascii") for part in found.groups())
            return f"riscv-tt-elf-g++ ({name}) {version}\nCopyright (C) 2025 Free Software Foundation, Inc.\n"
    raise EnvironmentProblem(f"no compiled firmware in {wheel}: not a wheel that can open mock devices")


# -- the ELF file --------------------------------------------------------------------------------------------
def smallest_elf() -> bytes:
    """The least ELF32 RISC-V executable that tt-metal's loader (`ll_api::ElfFile`) takes.

    One loaded segment that begins at the entry point, and a relocation section against `.text` (the loader
    refuses files without any) that holds a single R_RISCV_NONE; symbol and string tables.
    """
    names = b"\0.text\0.rela.text\0.symtab\0.strtab\0.shstrtab\0"
    code = struct.pack("<4I", 0x13, 0x13, 0x13, 0x8067)  # nop, nop, nop, ret
    relocation = struct.pack("<IIi", TEXT_ADDRESS, 1 << 8, 0)  # symbol 1, R_RISCV_NONE
    symbols = bytes(16) + struct.pack("<IIIBBH", 1, TEXT_ADDRESS, len(code), 0x12, 0, 1)  # global function in .text
    sections = (  # name, type, flags, address, link, info, alignment, entry size, data
        (b".text", 1, 6, TEXT_ADDRESS, 0, 0, 4, 0, code),
        (b".rela.text", 4, 0x40, 0, 3, 1, 4, 12, relocation),
        (b".symtab", 2, 0, 0, 4, 1, 4, 16, symbols),
        (b".strtab", 3, 0, 0, 0, 0, 1, 0, b"\0_start\0"),
        (b".shstrtab", 3, 0, 0, 0, 0, 1, 0, names),
    )
    body = b""
    table = bytes(40)
    first = 52 + 32  # file header, one program header
    for name, kind, flags, address, link, info, alignment, size, data in sections:
        body += bytes(-(first + len(body)) % 16)
        at = first + len(body)
        body += data
        text_at = names.index(b"\0" + name + b"\0") + 1
        table += struct.pack("<10I", text_at, kind, flags, address, at, len(data), link, info, alignment, size)
    body += bytes(-(first + len(body)) % 16)
    table_at = first + len(body)
    header = b"\x7fELF" + bytes((1, 1, 1)) + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 243, 1, TEXT_ADDRESS, 52, table_at, 0, 52, 32, 1, 40, 6, 5)
    text_offset = first + (-first % 16)
    segment = struct.pack("<8I", 1, text_offset, TEXT_ADDRESS, TEXT_ADDRESS, len(code), len(code), 5, 16)
    return header + segment + body + table
