"""What a run decides, as it decides it: one structured line per event on stderr, off unless somebody asks.

Every room of the code has a logger `ttopt.ROOM` of the standard library, and says an event and its fields:

    level=info room=policy event=trial kind=merge ops=conv_3 taken=true saved_ns=412

`configure` makes them heard, as `TTOPT_LOG` and `-v` say (docs/solver.md). A line depends on the input only, unless
`time` is asked for. A program that uses the library may instead attach handlers of its own to the logger `ttopt`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from optimizer.errors import OptionError

VARIABLE = "TTOPT_LOG"
NAME = "ttopt"
ROOMS: Mapping[str, str] = {
    "pipeline": "stages, and rounds of `--check`",
    "importers": "what a model becomes, pass by pass",
    "layouts": "legal layouts and configs per op, and what was refused",
    "policy": "states of chains, merges tried, incumbents and bounds",
    "solver": "sets, PathSets and reshards of chains; eliminations, prices, pruning, CP-SAT",
    "transform": "copies inserted",
    "verify": "what the finished plan was found to be",
    "service": "requests answered, jobs finished, what the store gave up",
}
"""Room -> what it tells."""
OFF = logging.CRITICAL + 1
LEVELS: Mapping[str, int] = {"debug": logging.DEBUG, "info": logging.INFO, "off": OFF}
VERBOSITY = (OFF, logging.INFO, logging.DEBUG)
"""Level by the number of `-v`."""
_BARE = re.compile(r"[!#-<>-\[\]-~]+")
"""Text that needs no quotes: printable ASCII without blanks, quotes, `=` and backslashes."""

_labels: ContextVar[Mapping[str, object]] = ContextVar("labels", default=MappingProxyType({}))


@dataclass(frozen=True)
class LogSettings:
    """Who is heard, and how lines look."""

    level: int = OFF
    """Of every room that has none of its own."""
    rooms: Mapping[str, int] = field(default_factory=dict)
    as_json: bool = False
    with_time: bool = False

    @staticmethod
    def parse(text: str) -> LogSettings:
        """`debug`, `solver=debug,policy=info`, and the words `json` and `time`. OptionError names what is wrong."""
        settings = LogSettings()
        for word in filter(None, (part.strip() for part in text.split(","))):
            room, is_pair, level = word.partition("=")
            if is_pair:
                settings = replace(
                    settings, rooms={**settings.rooms, _known(room, ROOMS): LEVELS[_known(level, LEVELS)]}
                )
            elif word == "json":
                settings = replace(settings, as_json=True)
            elif word == "time":
                settings = replace(settings, with_time=True)
            else:
                settings = replace(settings, level=LEVELS[_known(word, (*LEVELS, "json", "time"))])
        return settings

    def raised(self, verbosity: int) -> LogSettings:
        """With so many `-v`: rooms that the settings do not name tell at least as much."""
        return replace(self, level=min(self.level, VERBOSITY[min(verbosity, len(VERBOSITY) - 1)]))

    def level_of(self, room: str) -> int:
        return self.rooms.get(room, self.level)

    @property
    def is_on(self) -> bool:
        """Whether any room may say anything."""
        return any(self.level_of(room) < OFF for room in ROOMS)


def _known(word: str, words: Mapping[str, object] | tuple[str, ...]) -> str:
    if word not in words:
        raise OptionError(f"'{word}' means nothing in a log setting", node=VARIABLE, alternatives=tuple(words))
    return word


@dataclass(frozen=True)
class Event:
    """The message of a log record: `str` of it is the line without its level."""

    name: str
    fields: Mapping[str, object]

    def __str__(self) -> str:
        return " ".join(f"{key}={value_text(value)}" for key, value in {"event": self.name, **self.fields}.items())


class RoomLog:
    """What one room says. A level that nobody listens to costs one look-up."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{NAME}.{name}")

    @property
    def tells_info(self) -> bool:
        """Whether `info` is heard, for fields that take work to make."""
        return self._logger.isEnabledFor(logging.INFO)

    @property
    def tells_debug(self) -> bool:
        return self._logger.isEnabledFor(logging.DEBUG)

    def info(self, event: str, **fields: object) -> None:
        """A decision: few per run and op."""
        if self._logger.isEnabledFor(logging.INFO):
            self._logger.info(Event(event, {**fields, **_labels.get()}))

    def debug(self, event: str, **fields: object) -> None:
        """A step towards one."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._logger.debug(Event(event, {**fields, **_labels.get()}))


def room(name: str) -> RoomLog:
    """The log of a room. KeyError for a room that is not in `ROOMS`."""
    ROOMS[name]
    return RoomLog(name)


@contextlib.contextmanager
def labelled(**fields: object) -> Iterator[None]:
    """Inside the block every event carries these fields too."""
    token = _labels.set({**_labels.get(), **fields})
    try:
        yield
    finally:
        _labels.reset(token)


def value_text(value: object) -> str:
    """One value of a line; names come from files, so all but plain ASCII is quoted and escaped."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else json.dumps(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, list | tuple) and all(
        isinstance(v, str) and _BARE.fullmatch(v) and "," not in v for v in value
    ):
        return ",".join(value) or "-"
    return json.dumps(value, separators=(",", ":"), default=str)


class LineFormatter(logging.Formatter):
    """`key=value` lines, or JSON lines with the same keys."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self._settings = settings

    def format(self, record: logging.LogRecord) -> str:
        event = record.msg if isinstance(record.msg, Event) else Event(record.getMessage(), {})
        head: dict[str, Any] = {}
        if self._settings.with_time:
            head["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head |= {"level": record.levelname.lower(), "room": record.name.removeprefix(f"{NAME}.")}
        if self._settings.as_json:
            return json.dumps({**head, "event": event.name, **event.fields}, separators=(",", ":"), default=str)
        return " ".join(f"{key}={value_text(value)}" for key, value in head.items()) + f" {event}"


class _Stderr(logging.Handler):
    """Writes to whatever `sys.stderr` is at that moment, each line at once."""

    def __init__(self, settings: LogSettings) -> None:
        super().__init__()
        self.settings = settings
        self.setFormatter(LineFormatter(settings))

    def emit(self, record: logging.LogRecord) -> None:
        # A reader of stderr that has left (`ttopt ... |& head`) does not end the run.
        with contextlib.suppress(BrokenPipeError):
            sys.stderr.write(self.format(record) + "\n")
            sys.stderr.flush()


def configure(settings: LogSettings) -> None:
    """Let the rooms be heard on stderr as the settings say; replaces what was set before."""
    top = logging.getLogger(NAME)
    for handler in _ours():
        top.removeHandler(handler)
    for name in ROOMS:
        logging.getLogger(f"{NAME}.{name}").setLevel(settings.level_of(name) if settings.is_on else logging.NOTSET)
    top.propagate = not settings.is_on
    if settings.is_on:
        top.addHandler(_Stderr(settings))


def active() -> LogSettings:
    """What `configure` was given last: worker processes are started with the same."""
    return next((handler.settings for handler in _ours()), LogSettings())


def _ours() -> list[_Stderr]:
    return [handler for handler in logging.getLogger(NAME).handlers if isinstance(handler, _Stderr)]
