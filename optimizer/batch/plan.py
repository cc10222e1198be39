"""Which jobs a batch consists of: models times the points of a design space."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError
from optimizer.importers import suffixes
from optimizer.option_text import parse_option
from optimizer.options import Options
from optimizer.program import program_id

STORE_FORMAT = 4
"""Raised whenever the fields of a stored result change: `--resume` then takes no older ones."""


@dataclass(frozen=True)
class BatchJob:
    """One optimisation of a batch."""

    name: str
    """Unique in the batch; the folder of its results."""
    model: str
    """Name of the model: its file's without suffix, numbered where several have the same."""
    source: Path
    digest: str
    """SHA-256 of the model's bytes."""
    swept: Mapping[str, Any]
    """The options that the sweep sets, by name."""
    options: Options
    device: DeviceSpec
    emit: tuple[str, ...]
    key: str
    """Hash of everything that the result depends on. Jobs with the same key have the same result."""

    @property
    def point(self) -> str:
        """The point of the sweep, for people; empty without one."""
        return " ".join(f"{name}={value}" for name, value in self.swept.items())


def plan_jobs(
    sources: Sequence[Path],
    options: Mapping[str, Any],
    sweep: Mapping[str, Sequence[Any]],
    emit: Iterable[str] = (),
) -> list[BatchJob]:
    """Every model (folders stand for the models in them) at every point of the sweep.

    `options` holds decoded JSON. Raises OptionError or UnknownNameError for an option that does not
    exist or cannot have a swept value, and FormatError for a path that does not exist.
    """
    points = [dict(zip(sweep, values, strict=True)) for values in itertools.product(*sweep.values())]
    checked = [(point, Options.from_mapping({**options, **point})) for point in points]
    # A board's file is read here, so that no worker starts in vain, and so that other machines need not have it.
    boards = {chosen.board: DeviceSpec.load(chosen.board) for _, chosen in checked}
    artifacts = tuple(emit)
    jobs = []
    for source, model in zip(files := _model_files(sources), _unique([f.stem for f in files]), strict=True):
        digest, beside = digest_of_file(source), _files_beside(source)
        for point, chosen in checked:
            name = model + "".join(f"--{k}={v}" for k, v in point.items()).replace("/", "_")
            device = boards[chosen.board]
            key = _key(digest, beside, chosen.to_json(), device.to_json(), artifacts)
            jobs.append(BatchJob(name, model, source, digest, point, chosen, device, artifacts, key))
    return jobs


def parse_sweep(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`k=v1,v2` of each `--sweep`, values typed as the option wants them."""
    sweep: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values:
            raise OptionError(f"a sweep is OPTION=VALUE,VALUE,..., got '{text}'")
        if name in sweep:
            raise OptionError(f"'{name}' is swept twice")
        sweep[name] = []
        for value in values.split(","):
            parsed = parse_option(name, [value])
            if parsed in sweep[name]:
                raise OptionError(f"'{value}' comes twice in the sweep of '{name}'")
            sweep[name].append(parsed)
    return sweep


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits; FormatError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"cannot read: {error.strerror}", node=str(path)) from error


def _model_files(sources: Iterable[Path]) -> list[Path]:
    files: list[Path] = []
    known = suffixes()
    for source in sources:
        if source.is_dir():
            found = sorted(p for p in source.iterdir() if p.suffix.lower() in known and p.is_file())
            if not found:
                raise FormatError("no model in this folder", node=str(source), alternatives=[f"*{s}" for s in known])
            files += found
        elif source.is_file():
            files.append(source)
        else:
            raise FormatError("no such file or folder", node=str(source))
    return list(dict.fromkeys(files))


def _files_beside(source: Path) -> list[tuple[str, int, int]]:
    """What may hold a model's external data, whose small tensors are read: files named after it, sizes and times."""
    found = sorted(p for p in source.parent.glob(f"{_escaped(source.name)}[._]*") if p.is_file())
    return [(p.name, (status := p.stat()).st_size, status.st_mtime_ns) for p in found]


def _escaped(name: str) -> str:
    """A name as a pattern that only it matches."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _unique(stems: Sequence[str]) -> list[str]:
    """The stems, numbered where several models have the same."""
    counts: dict[str, int] = {}
    names = []
    for stem in stems:
        counts[stem] = counts.get(stem, 0) + 1
        names.append(stem if counts[stem] == 1 else f"{stem}-{counts[stem]}")
    return names


def _key(*parts: Any) -> str:
    text = json.dumps([program_id(), STORE_FORMAT, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
