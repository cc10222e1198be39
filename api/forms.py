"""A multipart form that lies in a file: the model, its file name, and the options."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, BinaryIO

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from api.tasks.models import OPTIONS_BYTES, too_many_options
from optimizer.errors import FormatError, OptionError
from optimizer.process.json_document import decoded

OPTIONS_FIELD = "options"
TOO_LONG = "Part exceeded"
"""How the parser begins to say that a field, which is no file, is too long."""
PIECE_BYTES = 64 * 1024
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "latin-1")


@dataclass(frozen=True)
class Fields:
    """What a form of one kind holds."""

    required: tuple[str, ...] = ("file",)
    """Files, in the order in which the task reads them;"""
    optional: tuple[str, ...] = ()
    """these follow."""
    options: bool = True
    """Whether there may be a field `options`, a JSON object."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.required, *self.optional, *([OPTIONS_FIELD] if self.options else []))


@dataclass(frozen=True)
class Form:
    """A form that was read; its files are to be closed by whoever asked."""

    files: tuple[tuple[BinaryIO, str], ...]
    """Each with the name that it has at the client's."""
    options: dict[str, Any]


def read_form(file: BinaryIO, content_type: str, fields: Fields) -> Form:
    """The form in a file; FormatError and OptionError tell what is wrong with it."""
    return asyncio.run(_read(file, content_type, fields))


async def _read(file: BinaryIO, content_type: str, fields: Fields) -> Form:
    _, parameters = parse_options_header(content_type)
    named = parameters.get(b"charset", b"utf-8").decode("latin-1").lower()
    if named not in CHARSETS:
        # Python has codecs whose errors are of other kinds, or whose results cannot be written as UTF-8.
        raise FormatError(
            f"not a readable multipart body: its charset is '{named}'", node="body", alternatives=CHARSETS
        )
    most_files = len(fields.required) + len(fields.optional)
    headers = Headers({"content-type": content_type})
    most_fields = most_files + 1
    parser = MultiPartParser(
        headers, _pieces(file), max_files=most_files, max_fields=most_fields, max_part_size=OPTIONS_BYTES
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if error.message.startswith(TOO_LONG):
            raise too_many_options() from error
        raise FormatError(f"not a readable multipart body: {error.message}", node="body") from error
    try:
        return _checked(form, fields)
    except BaseException:
        await form.close()
        raise


def _checked(form: FormData, fields: Fields) -> Form:
    for name, _ in form.multi_items():
        if name not in fields.names:
            raise FormatError(f"unknown form field '{name}'", node="body", alternatives=fields.names)
        if len(form.getlist(name)) > 1:
            raise FormatError(f"the form has more than one field '{name}'", node="body")
    files = []
    for name in (*fields.required, *fields.optional):
        part = form.get(name)
        if isinstance(part, UploadFile):
            files.append((part.file, part.filename or ""))
        elif part is not None or name in fields.required:
            raise FormatError(f"the form needs a file as field '{name}'", node="body")
    return Form(tuple(files), _options_object(form.get(OPTIONS_FIELD, "{}")))


async def _pieces(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _options_object(text: object) -> dict[str, Any]:
    try:
        record = decoded(text) if isinstance(text, str) else None
    except FormatError as error:
        raise OptionError(f"'options' is {error.message}", node="body") from error
    if not isinstance(record, dict):
        raise OptionError("'options' must be a JSON object in a plain form field", node="body")
    return record
