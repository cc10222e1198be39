"""What the witness refuses: text it cannot read, and programs whose meaning depends on luck.

TextError       (FormatError)        the text is not gfx942 assembly as the witness knows it
ExecutionError  (VerificationError)  the program did something that hardware does not define
"""

from __future__ import annotations

from optimizer.errors import FormatError, TtoptError, VerificationError


class TextError(FormatError):
    """A line of the text cannot be read; `line` counts from 1."""

    def __init__(self, message: str, line: int, alternatives: tuple[str, ...] = ()) -> None:
        self.line = line
        super().__init__(message, node=f"line {line}", alternatives=alternatives)


class ExecutionError(VerificationError):
    """The program's meaning is not defined at `line`. `kind` is one of `KINDS`."""

    KINDS = (
        "missing-wait", "hazard", "undefined-register", "undefined-memory", "register-limit", "alignment",
        "offset-range", "memory-fault", "lds-bounds", "scratch-bounds", "race", "barrier", "descriptor", "no-end",
        "unsupported",
    )  # fmt: skip

    def __init__(self, kind: str, message: str, line: int, text: str = "", where: str = "") -> None:
        if kind not in self.KINDS:
            raise ValueError(f"unknown kind of execution error '{kind}'")
        self.kind, self.line, self.text, self.where = kind, line, text, where
        place = f"line {line}" + (f" `{text}`" if text else "") + (f" ({where})" if where else "")
        TtoptError.__init__(self, f"{kind}: {message}", node=place)
        self.reason = message
