"""Which jobs a batch consists of: models times the points of a design space."""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.batch.comparison import Sweep, points
from optimizer.batch.names import folder_names
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError
from optimizer.importers import suffixes
from optimizer.options import Options, option_infos, parse_option, value_text
from optimizer.process.version import program_id

STORE_FORMAT = 5
"""Raised whenever the fields of a stored result change: `--resume` then takes no older ones."""
_ENDS_IN_SHAPE = re.compile(r":\d+(,\d+)*$")


@dataclass(frozen=True)
class BatchJob:
    """One optimisation of a batch."""

    name: str
    """Unique in the batch; the folder of its results."""
    model: str
    """Name of the model, unique among models: its file's without suffix (`names.folder_names`)."""
    source: Path
    digest: str
    """SHA-256 of the model's bytes; empty if they could not be read."""
    swept: Mapping[str, Any]
    """The options that the sweep sets, by name."""
    options: Options
    device: DeviceSpec
    emit: tuple[str, ...]
    key: str
    """Hash of everything that the result depends on. Jobs with the same key have the same result."""


def plan_jobs(
    sources: Sequence[Path],
    options: Mapping[str, Any],
    sweep: Sweep,
    emit: Iterable[str] = (),
) -> list[BatchJob]:
    """Every model (folders stand for the models in them) at every point of the sweep.

    `options` holds decoded JSON. Raises OptionError or UnknownNameError for an option that does not
    exist or cannot have a swept value, and FormatError for a path that does not exist. A model that exists and
    cannot be read gets jobs, which fail by themselves.
    """
    checked = [(point, Options.from_mapping({**options, **point})) for point in points(sweep)]
    # A board's file is read here, so that no worker starts in vain, and so that other machines need not have it.
    boards = {chosen.board: DeviceSpec.load(chosen.board) for _, chosen in checked}
    artifacts = tuple(emit)
    files = _model_files(sources)
    models = folder_names(file.stem for file in files)
    names = iter(folder_names(model + _suffix(point) for model in models for point, _ in checked))
    companions = _Companions()
    jobs = []
    for source, model in zip(files, models, strict=True):
        digest = _digest_or_nothing(source)
        content = (digest, companions.of(source)) if digest else (str(source),)
        for point, chosen in checked:
            device = boards[chosen.board]
            key = _key(*content, chosen.to_json(), device.to_json(), artifacts)
            jobs.append(BatchJob(next(names), model, source, digest, point, chosen, device, artifacts, key))
    return jobs


def parse_sweep(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`k=v1,v2` of each `--sweep`, values typed as the option wants them.

    A comma that is part of a value is written `\\,`; those between the sizes of a shape may stay as they are. Entries
    of an option that is a mapping are joined by `+` to make one value.
    """
    sweep: dict[str, list[Any]] = {}
    mappings = {info.name for info in option_infos() if info.kind is dict}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values:
            raise OptionError(f"a sweep is OPTION=VALUE,VALUE,..., got '{text}'")
        if name in sweep:
            raise OptionError(f"'{name}' is swept twice")
        sweep[name] = []
        for value in _values(values, shapes=name == "input_shapes"):
            parsed = parse_option(name, value.split("+") if name in mappings else [value])
            if parsed in sweep[name]:
                raise OptionError(f"'{value}' comes twice in the sweep of '{name}'")
            sweep[name].append(parsed)
    return sweep


def _values(text: str, shapes: bool) -> list[str]:
    """What commas separate, but for those written `\\,` and, of shapes, those before a size: `x:1,3,x:2,3` is two."""
    values: list[str] = []
    for part in re.split(r"(?<!\\),", text):
        if shapes and values and part.isdecimal() and _ENDS_IN_SHAPE.search(values[-1]):
            values[-1] += f",{part}"
        else:
            values.append(part.replace("\\,", ","))
    return values


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits; FormatError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"cannot read: {error.strerror}", node=str(path)) from error


def _digest_or_nothing(path: Path) -> str:
    try:
        return digest_of_file(path)
    except FormatError:
        return ""


def _suffix(point: Mapping[str, Any]) -> str:
    return "".join(f"--{name}={value_text(value)}" for name, value in point.items())


def _model_files(sources: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    known = suffixes()
    for source in sources:
        if source.is_dir():
            found = [path for path in _entries(source) if path.suffix.lower() in known and _stands_for_a_file(path)]
            if not found:
                raise FormatError("no model in this folder", node=str(source), alternatives=[f"*{s}" for s in known])
            files += found
        elif source.is_file():
            files.append(source)
        else:
            raise FormatError("no such file or folder", node=str(source))
    return list(dict.fromkeys(files))


def _stands_for_a_file(path: Path) -> bool:
    """Whether it is a file, or a link that leads nowhere: that one is told as a model that cannot be read."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise FormatError(f"cannot read: {error.strerror}", node=str(folder)) from error


class _Companions:
    """Finds what may hold models' external data, whose small tensors are read. Each folder is listed once."""

    def __init__(self) -> None:
        self._names: dict[Path, list[str]] = {}

    def of(self, source: Path) -> list[tuple[str, int, int]]:
        """Files named after a model, sizes and times."""
        folder = source.parent
        if folder not in self._names:
            self._names[folder] = [path.name for path in _entries(folder)]
        names = self._names[folder]
        found = []
        for name in names[bisect_left(names, source.name) :]:
            if not name.startswith(source.name):
                break
            if name[len(source.name) :].startswith((".", "_")) and (path := folder / name).is_file():
                status = path.stat()
                found.append((name, status.st_size, status.st_mtime_ns))
        return found


def _key(*parts: Any) -> str:
    text = json.dumps([program_id(), STORE_FORMAT, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
