"""Which jobs a batch consists of: models times the points of a design space."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer import __version__
from optimizer.device import DeviceSpec
from optimizer.errors import FormatError, OptionError
from optimizer.importers import suffixes
from optimizer.option_text import parse_option
from optimizer.options import Options

RECORD_FORMAT = 3
"""Raised whenever the fields of a stored result change: `--resume` then takes no older ones."""


@dataclass(frozen=True)
class BatchJob:
    """One optimisation of a batch."""

    name: str
    """Unique in the batch; the folder of its results."""
    source: Path
    swept: Mapping[str, Any]
    """The options that the sweep sets, by name."""
    options: Options
    emit: tuple[str, ...]
    key: str
    """Hash of the model's bytes and everything else the result depends on."""


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
    for _, chosen in checked:
        DeviceSpec.load(chosen.board)  # a file's as well, so that no worker starts in vain
    artifacts = tuple(emit)
    jobs = []
    for source, stem in zip(files := _model_files(sources), _unique([f.stem for f in files]), strict=True):
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        for point, chosen in checked:
            name = stem + "".join(f"--{k}={v}" for k, v in point.items()).replace("/", "_")
            jobs.append(BatchJob(name, source, point, chosen, artifacts, _key(digest, name, chosen, artifacts)))
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


def _unique(stems: Sequence[str]) -> list[str]:
    """The stems, numbered where several models have the same."""
    counts: dict[str, int] = {}
    names = []
    for stem in stems:
        counts[stem] = counts.get(stem, 0) + 1
        names.append(stem if counts[stem] == 1 else f"{stem}-{counts[stem]}")
    return names


def _key(digest: str, name: str, options: Options, emit: tuple[str, ...]) -> str:
    parts = [__version__, RECORD_FORMAT, digest, name, options.to_json(), emit]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
