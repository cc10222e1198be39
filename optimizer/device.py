"""Boards: what the layout problem needs to know of a chip.

The preset figures were read from tt-metal 0.81.1 (allocator statistics of a device opened with
`l1_small_size` 0); each `boards/*.json` names its source. A board of one's own is one more such file.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.process.json_document import decoded, read_text

ARCHITECTURES = ("wormhole_b0", "blackhole")

DRAM_REACHED = {"wormhole_b0": 267 / 288, "blackhole": 500 / 512}
"""Share of the peak DRAM bandwidth that the best published kernels read at, every reader beside its bank: 267 of 288
GB/s and 500 of 512 GB/s (tt-metal, tech_reports: Saturating_DRAM_bandwidth, Saturating_DRAM_bandwidth_Blackhole)."""

_RANGES: dict[str, tuple[float, float]] = {
    "grid_yx": (1, 64),
    "worker_l1_bytes": (1, 2**30),
    "cb_base_bytes": (1, 2**30),
    "l1_alignment_bytes": (1, 4096),
    "dram_banks": (1, 1024),
    "dram_bank_bytes": (1, 2**40),
    "dram_alignment_bytes": (1, 4096),
    "clock_mhz": (1, 100_000),
    "dram_peak_gbps": (1e-3, 1e6),
}
"""Least and greatest value of every figure of a board, far beyond any chip; a search stays finite within them."""


@dataclass(frozen=True, slots=True, repr=False)
class DeviceSpec:
    """One chip as its runtime presents it to TTNN.

    L1 of a worker core: circular buffers grow upwards from `cb_base_bytes`, tensors are allocated
    downwards from `worker_l1_bytes - l1_small_bytes`, so the room both share (the L1 *bank*) is
    `worker_l1_bytes - cb_base_bytes - l1_small_bytes`.
    """

    name: str
    """Board name, e.g. `n150`."""
    arch: str
    """`wormhole_b0` or `blackhole`."""
    grid_yx: tuple[int, int]
    """Worker grid (rows, columns) visible to TTNN."""
    worker_l1_bytes: int
    """L1 size of a worker core; where circular buffers must end."""
    cb_base_bytes: int
    """First L1 address a circular buffer may use."""
    l1_alignment_bytes: int
    dram_banks: int
    dram_bank_bytes: int
    dram_alignment_bytes: int
    clock_mhz: int
    dram_peak_gbps: float
    """Peak DRAM bandwidth of the chip in GB/s (1e9 bytes per second)."""

    def __post_init__(self) -> None:
        if self.arch not in ARCHITECTURES:
            raise UnknownNameError("architecture", self.arch, ARCHITECTURES, node=f"board {self.name}")
        for field in fields(self):
            value = getattr(self, field.name)
            numbers = value if isinstance(value, tuple) else (value,)
            low, high = _RANGES.get(field.name, (0, 0))
            if high and not all(low <= n <= high for n in numbers):
                raise OptionError(
                    f"'{field.name}' must be between {low:g} and {high:.10g}", node=f"board {self.name}", limit=high
                )
            if field.name.endswith("_alignment_bytes") and value & (value - 1):
                raise OptionError(f"'{field.name}' must be a power of two, got {value}", node=f"board {self.name}")
        if self.worker_l1_bytes <= self.cb_base_bytes:
            raise OptionError(
                f"'worker_l1_bytes' ({self.worker_l1_bytes}) must exceed 'cb_base_bytes' ({self.cb_base_bytes})",
                node=f"board {self.name}",
            )

    def __hash__(self) -> int:
        """That of the name: boards are part of many cache keys."""
        return hash(self.name)

    def __repr__(self) -> str:
        rows, columns = self.grid_yx
        return f"<DeviceSpec {self.name}: {self.arch}, {rows}x{columns} cores>"

    @property
    def num_cores(self) -> int:
        return self.grid_yx[0] * self.grid_yx[1]

    @property
    def dram_best_gbps(self) -> float:
        """DRAM bandwidth that kernels can reach, in GB/s: `DRAM_REACHED` of the peak."""
        return self.dram_peak_gbps * DRAM_REACHED[self.arch]

    @property
    def l1_buffer_alignment_bytes(self) -> int:
        """What the size of an L1 buffer is rounded up to; rows within it only to `l1_alignment_bytes`.

        tt-metal's allocator aligns L1 buffers as DRAM requires it (measured on mock devices: 32 B on
        Wormhole, 64 B on Blackhole), so that they can be copied whole.
        """
        return max(self.l1_alignment_bytes, self.dram_alignment_bytes)

    @property
    def cb_limit_bytes(self) -> int:
        """Most bytes per core that circular buffers may take: `worker_l1 - cb_base`."""
        return self.worker_l1_bytes - self.cb_base_bytes

    def l1_bank_bytes(self, l1_small_bytes: int) -> int:
        """Bytes per core shared by L1 tensors and circular buffers."""
        return self.cb_limit_bytes - l1_small_bytes

    def l1_limit_bytes(self, l1_small_bytes: int, usage_cap: float) -> int:
        """Bytes per core a plan may use: `floor(bank * usage_cap)`."""
        return int(self.l1_bank_bytes(l1_small_bytes) * usage_cap)

    def to_json(self) -> dict[str, Any]:
        record = asdict(self)
        record["grid_yx"] = list(self.grid_yx)
        return record

    @staticmethod
    def from_json(record: object, place: str = "board") -> DeviceSpec:
        """Build from a decoded JSON object; unknown, missing or mistyped fields are errors."""
        if not isinstance(record, dict):
            raise FormatError("a board file holds one JSON object", node=place)
        known = {f.name: f.type for f in fields(DeviceSpec)}
        data = {k: v for k, v in record.items() if k != "source"}
        for key in data:
            if key not in known:
                raise UnknownNameError("board field", str(key), known, node=place)
        missing = sorted(set(known) - set(data))
        if missing:
            raise FormatError(f"missing board field(s): {', '.join(missing)}", node=place)
        for key, value in data.items():
            data[key] = _checked_field(key, str(known[key]), value, place)
        return DeviceSpec(**data)

    @staticmethod
    def preset(name: str) -> DeviceSpec:
        """A built-in board by name."""
        return _preset(name)

    @staticmethod
    def load(name_or_path: str) -> DeviceSpec:
        """A preset by name, or a board file if the argument ends in `.json`."""
        if not name_or_path.endswith(".json"):
            return _preset(name_or_path)
        path = Path(name_or_path)
        try:
            record = decoded(read_text(path), name_or_path)
        except OSError as error:
            raise FormatError(f"cannot read board file: {error.strerror}", node=name_or_path) from error
        return DeviceSpec.from_json(record, name_or_path)


def _checked_field(key: str, type_name: str, value: object, place: str) -> object:
    """One board field with its declared type, or FormatError naming it."""
    integer = isinstance(value, int) and not isinstance(value, bool)
    if type_name == "str" and isinstance(value, str):
        return value
    if type_name == "int" and integer:
        return value
    if type_name == "float" and (integer or isinstance(value, float)):
        return _as_float(key, value, place)  # type: ignore[arg-type]
    pair = isinstance(value, list | tuple) and len(value) == 2 and all(type(n) is int for n in value)
    if type_name.startswith("tuple") and pair:
        return tuple(value)  # type: ignore[arg-type]
    raise FormatError(f"board field '{key}' must be {type_name}, got {value!r}", node=place)


def _as_float(key: str, value: float, place: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise FormatError(f"board field '{key}' is too large for a float", node=place) from error


@cache
def preset_names() -> tuple[str, ...]:
    """Names of the built-in boards, sorted."""
    folder = resources.files("optimizer") / "boards"
    return tuple(sorted(p.name.removesuffix(".json") for p in folder.iterdir() if p.name.endswith(".json")))


def board_option(device: DeviceSpec, asked: str = "") -> str:
    """What the option `board` says of a board: a preset's name, or the file that was asked for, or would hold it."""
    if device.name in preset_names() and _preset(device.name) == device:
        return device.name
    return asked if asked.endswith(".json") else f"{device.name}.json"


@cache
def _preset(name: str) -> DeviceSpec:
    if name not in preset_names():
        raise UnknownNameError("board", name, preset_names(), node="board")
    text = (resources.files("optimizer") / "boards" / f"{name}.json").read_text(encoding="utf-8")
    return DeviceSpec.from_json(decoded(text), f"board {name}")
