"""What tt-metal needs around it to run programs *with values* on Tenstorrent's functional simulator (ttsim).

Standard library only, like `environment`: the child process loads both by their paths. The user brings two things that
ttopt does not ship: the simulator, one library per chip architecture, and tt-metal's own compiler for its kernels
(SFPI). docs/values.md says where they are documented.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.opmodel.ttmetal import environment
else:
    environment = sys.modules.get("ttopt_environment")
    if environment is None:
        from optimizer.opmodel.ttmetal import environment

LIBRARY_VARIABLE = "TTOPT_SIMULATOR"
COMPILER_VARIABLE = "TTOPT_SFPI"
TT_METAL_LIBRARY_VARIABLE = "TT_METAL_SIMULATOR"
LIBRARY_NAME = "libttsim.so"
COMPILER = Path("compiler", "bin", "riscv-tt-elf-g++")
INSTALLED_COMPILER = Path("/opt/tenstorrent/sfpi")
"""Where tt-metal's own packages put SFPI."""

DESCRIPTORS = {"wormhole_b0": "wormhole_b0_80_arch.yaml", "blackhole": "blackhole_140_arch.yaml"}
"""Architecture -> the wheel's description of the simulated chip."""
_DEVICE_IDS = {0x401E: "wormhole_b0", 0xB140: "blackhole"}
_VENDOR = 0x1E52
_PROBE = (
    "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); library.libttsim_init(); "
    "read = library.libttsim_pci_config_rd32; read.restype = ctypes.c_uint32; print(read(0, 0)); sys.stdout.flush(); "
    "import os; os._exit(0)"
)
_PROBE_SECONDS = 60
HOW_TO_GET = (
    f"name Tenstorrent's functional simulator ({LIBRARY_NAME}, github.com/tenstorrent/ttsim) in the environment "
    f"variable {LIBRARY_VARIABLE}"
)
HOW_TO_GET_COMPILER = (
    f"run `python -m ttnn.download_sfpi`, install tt-metal's SFPI package, or name SFPI's folder in {COMPILER_VARIABLE}"
)


def library_path() -> Path:
    """The simulator's library that the user named, itself or its folder; EnvironmentProblem when there is none."""
    named = os.environ.get(LIBRARY_VARIABLE) or os.environ.get(TT_METAL_LIBRARY_VARIABLE)
    if not named:
        raise environment.EnvironmentProblem(f"no simulator: {HOW_TO_GET}")
    path = Path(named).absolute()
    if path.is_dir():
        path /= LIBRARY_NAME
    if not path.is_file():
        raise environment.EnvironmentProblem(f"there is no simulator at {path}: {HOW_TO_GET}")
    return path


def compiler_folder(wheel: Path) -> Path:
    """SFPI: the folder the user named, the wheel's own, or the installed one."""
    named = os.environ.get(COMPILER_VARIABLE)
    places = [Path(named).absolute()] if named else [wheel / "runtime" / "sfpi", INSTALLED_COMPILER]
    for place in places:
        if (place / COMPILER).is_file():
            return place
    looked = " nor ".join(str(place) for place in places)
    raise environment.EnvironmentProblem(f"no compiler for tt-metal's kernels in {looked}: {HOW_TO_GET_COMPILER}")


def architecture(library: Path) -> str:
    """The chip that a library simulates, asked of it in a process of its own, which a wrong library may end."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _PROBE, str(library)],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        numbers = int(done.stdout.split()[-1])
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        raise environment.EnvironmentProblem(
            f"{library} is no simulator that tt-metal could load: {HOW_TO_GET}"
        ) from error
    found = _DEVICE_IDS.get(numbers >> 16)
    if numbers & 0xFFFF != _VENDOR or found is None:
        raise environment.EnvironmentProblem(
            f"{library} simulates an unknown chip ({numbers:#010x}); known: {', '.join(DESCRIPTORS)}"
        )
    return found


def prepare(arch: str, version: str, *, fast_dispatch: bool = False) -> Path:
    """Point this process at the simulator of an architecture; returns the folder with its compiled kernels.

    Traces and a second command queue need fast dispatch, whose cores are simulated too: it takes far longer.
    """
    library = library_path()
    simulated = architecture(library)
    if simulated != arch:
        raise environment.EnvironmentProblem(f"{library} simulates a {simulated}, the board is a {arch}")
    wheel = environment.wheel_folder()
    compiler = compiler_folder(wheel)
    root = environment.root_folder(version, wheel)
    key = hashlib.blake2b(f"{library}\n{compiler}".encode("utf-8", "surrogateescape"), digest_size=5).hexdigest()
    try:
        overlay = environment.link_wheel(root / f"overlay-sim-{key}", wheel)
        _point(overlay / "runtime" / "sfpi", compiler)
        chip = root / f"simulator-{key}"
        chip.mkdir(parents=True, exist_ok=True)
        _point(chip / LIBRARY_NAME, library)
        _point(chip / "soc_descriptor.yaml", wheel / "tt_metal" / "soc_descriptors" / DESCRIPTORS[arch])
        kernels = root / f"kernels-sim-{arch}"
        kernels.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise environment.EnvironmentProblem(f"cannot write {root}: {error}") from error
    environment.set_variables(
        overlay,
        kernels,
        root,
        TT_METAL_SIMULATOR=str(chip / LIBRARY_NAME),
        TT_METAL_DISABLE_SFPLOADMACRO="1",
    )
    if not fast_dispatch:
        os.environ["TT_METAL_SLOW_DISPATCH_MODE"] = "1"
    return root


def _point(link: Path, target: Path) -> None:
    """Make a link that several processes may make at once."""
    if link.is_symlink() and Path(os.readlink(link)) == target:
        return
    new = link.with_name(f".{link.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)
