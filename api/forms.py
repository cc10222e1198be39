"""A multipart form that lies in a file: the model, its file name, and the options."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, BinaryIO

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from optimizer.errors import FormatError, OptionError

FORM_FIELDS = ("file", "options")
PIECE_BYTES = 64 * 1024
CHARSETS = ("utf-8", "us-ascii", "iso-8859-1", "latin-1")


@dataclass(frozen=True)
class ModelForm:
    """What a form holds."""

    file: BinaryIO
    """The model, to be closed by whoever asked."""
    file_name: str
    options: dict[str, Any]


def read_form(file: BinaryIO, content_type: str) -> ModelForm:
    """The form in a file; FormatError and OptionError tell what is wrong with it."""
    return asyncio.run(_read(file, content_type))


async def _read(file: BinaryIO, content_type: str) -> ModelForm:
    _, parameters = parse_options_header(content_type)
    named = parameters.get(b"charset", b"utf-8").decode("latin-1").lower()
    if named not in CHARSETS:
        # Python has codecs whose errors are of other kinds, or whose results cannot be written as UTF-8.
        raise FormatError(
            f"not a readable multipart body: its charset is '{named}'", node="body", alternatives=CHARSETS
        )
    parser = MultiPartParser(Headers({"content-type": content_type}), _pieces(file), max_files=1, max_fields=2)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise FormatError(f"not a readable multipart body: {error.message}", node="body") from error
    try:
        return _model_form(form)
    except BaseException:
        await form.close()
        raise


def _model_form(form: FormData) -> ModelForm:
    for name in form:
        if name not in FORM_FIELDS:
            raise FormatError(f"unknown form field '{name}'", node="body", alternatives=FORM_FIELDS)
    model, options = form.get("file"), form.get("options", "{}")
    if not isinstance(model, UploadFile):
        raise FormatError("the form needs the model as field 'file'", node="body")
    return ModelForm(model.file, model.filename or "", _options_object(options))


async def _pieces(file: BinaryIO) -> AsyncGenerator[bytes, None]:
    while piece := file.read(PIECE_BYTES):
        yield piece


def _options_object(text: object) -> dict[str, Any]:
    try:
        record = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"'options' is not JSON: {error}", node="body") from error
    if not isinstance(record, dict):
        raise OptionError("'options' must be a JSON object in a plain form field", node="body")
    return record
