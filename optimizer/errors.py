"""The exception tree of ttopt.

    TtoptError                     anything ttopt raises on purpose
    |-- InputError                 the caller's input is wrong          exit 2, HTTP 4xx
    |   |-- FormatError            not a readable model / JSON document
    |   |-- GraphError             ill-formed graph: cycle, missing value, duplicate name
    |   |-- ShapeError             dynamic, empty, absurd or contradictory shape
    |   |-- DTypeError             element type with no TTNN counterpart
    |   |-- LimitError             larger than a configurable limit
    |   |-- UnsupportedOpError     ops that TTNN lacks, unless they may run on the host
    |   |-- UnknownNameError       board / policy / op / option that does not exist
    |   `-- OptionError            option value out of range or contradictory
    |-- InfeasibleError            no plan satisfies the constraints    exit 1
    |-- VerificationError          a finished plan failed its re-check  exit 1
    |-- TimeLimitError             time limit hit with nothing found    exit 3
    |-- OpModelError               the OpModel backend itself failed    exit 1
    |-- PluginError                another distribution's code failed   exit 1
    |-- OutputError                a file cannot be written            exit 2
    `-- StateError                 illegal use of one of our own objects

`optimizer.kernels.amdgpu.errors` and `optimizer.kernels.amdgpu.witness.errors` hang their own leaves into it.

Every message names the place (`node`), the limit that was hit (`limit`) and what would have been
accepted (`alternatives`) where these exist; entrances print `str(error)` and nothing else. Text that is very long,
since it repeats the input, is cut.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

LONGEST_MESSAGE = 4000
SHOWN_ALTERNATIVES, MOST_ALTERNATIVES = 12, 1000
"""Names that the text of an error lists, and that it carries for programs."""
LONGEST_NAME = 500
"""Characters that an error shows of its message, and of each name in it."""


SHOWN_NEAR = 3
"""Names that an error suggests."""
LEAST_PART = 3
"""Characters of a word that is looked for inside of names."""


def near(word: str, known: Iterable[str]) -> str:
    """`, did you mean 'x' or 'y'?` where something known comes near or has the word in it, else nothing.

    The dashes of flags make no two of them alike.
    """
    dashes = "--" if word.startswith("--") else ""
    word, names = word.removeprefix(dashes), sorted(n.removeprefix(dashes) for n in known if n.startswith(dashes))
    close = difflib.get_close_matches(word, names, n=SHOWN_NEAR, cutoff=0.6)
    if len(word) >= LEAST_PART:
        close += [name for name in names if word.lower() in name.lower() and name not in close]
    shown = " or ".join(repr(shortened(dashes + name)) for name in close[:SHOWN_NEAR])
    return f", did you mean {shown}?" if shown else ""


def shortened(text: str, longest: int = LONGEST_NAME) -> str:
    """The text, without its middle if it is longer than that."""
    if len(text) <= longest:
        return text
    left_out = f" ... {len(text) - longest} characters ... "
    return text[: longest // 2] + left_out + text[len(text) - longest // 2 :]


class TtoptError(Exception):
    """Root of everything ttopt raises deliberately."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        limit: int | float | str | None = None,
        alternatives: Iterable[str] = (),
    ) -> None:
        self.message = shortened(message, LONGEST_MESSAGE)
        self.node = None if node is None else shortened(node)
        self.limit = limit
        self.alternatives = tuple(shortened(name) for name in alternatives)
        super().__init__(str(self))

    def __str__(self) -> str:
        text = self.message
        if self.node is not None and f"'{self.node}'" not in text:
            text = f"{self.node}: {text}"
        if self.alternatives:
            more = len(self.alternatives) - SHOWN_ALTERNATIVES
            shown = ", ".join(self.alternatives[:SHOWN_ALTERNATIVES])
            text += f" (one of: {shown}, ... {more} more)" if more > 0 else f" (one of: {shown})"
        return text

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross process boundaries (batch workers, the HTTP solve) with all fields, those of subclasses too."""
        return (_rebuild, (type(self), self.message, self.node, self.limit, self.alternatives), vars(self))


def _rebuild(
    cls: type[TtoptError],
    message: str,
    node: str | None,
    limit: int | float | str | None,
    alternatives: tuple[str, ...],
) -> TtoptError:
    error = cls.__new__(cls)
    TtoptError.__init__(error, message, node=node, limit=limit, alternatives=alternatives)
    return error


class InputError(TtoptError):
    """The caller's input is wrong; nothing was computed."""

    code = "bad-input"
    exit_code = 2
    http_status = 422


class FormatError(InputError):
    """The bytes are not a model or document of the announced format."""

    code = "bad-format"
    http_status = 400


class GraphError(InputError):
    """The graph is ill-formed: a cycle, a missing value, a duplicate name."""

    code = "bad-graph"


class ShapeError(InputError):
    """A shape is dynamic, empty, absurd or contradicts the op's shape rule."""

    code = "bad-shape"


class DTypeError(InputError):
    """An element type that has no TTNN counterpart."""

    code = "bad-dtype"


class UnsupportedOpError(InputError):
    """The graph holds ops that TTNN lacks, and the options do not allow them to run on the host."""

    code = "unsupported-op"


class LimitError(InputError):
    """The input exceeds a configurable limit (named by `limit`)."""

    code = "too-large"
    http_status = 413


class OptionError(InputError):
    """An option's value is out of range or contradicts another."""

    code = "bad-option"


class UnknownNameError(InputError):
    """A name (board, policy, op, emitter, ...) that does not exist; near matches come first."""

    code = "unknown-name"

    def __init__(self, kind: str, name: str, known: Iterable[str], *, node: str | None = None) -> None:
        names, name = sorted(known), shortened(name)
        close = difflib.get_close_matches(name, names, n=5, cutoff=0.5)
        shown = close + [n for n in names if n not in close]
        super().__init__(
            f"unknown {kind} '{name}'{near(name, names)}", node=node, alternatives=shown[:MOST_ALTERNATIVES]
        )


class InfeasibleError(TtoptError):
    """No plan satisfies every constraint, not even with everything in DRAM."""

    code = "infeasible"
    http_status = 422


class VerificationError(TtoptError):
    """A finished plan failed the independent re-check; it is never returned as a success."""

    code = "verification-failed"


class TimeLimitError(TtoptError):
    """The time limit was reached before anything could be returned."""

    code = "time-limit"
    exit_code = 3
    http_status = 504


class OpModelError(TtoptError):
    """An OpModel backend failed to answer (not: answered 'invalid')."""

    code = "opmodel-failed"


class PluginError(TtoptError):
    """Code that another distribution publishes as an entry point failed; the message names both."""

    code = "plugin-failed"


class ExecutionError(OpModelError):
    """A program or op that was to be executed with values could not be: the device refused it, died or hung."""

    code = "execution-failed"


class OutputError(TtoptError):
    """A file or folder cannot be written: no room, no permission, or something else lies there."""

    code = "cannot-write"
    exit_code = 2


class StateError(TtoptError):
    """One of our own objects was used against its state machine."""

    code = "illegal-state"
