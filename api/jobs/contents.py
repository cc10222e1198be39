"""Bytes in the store: models, results and artifacts, in pieces of a size that a transaction can bear."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import delete, func, insert, select, update

from api.jobs.database import Database
from api.jobs.identities import new_id
from api.jobs.tables import CONTENTS, PIECES
from api.problems import GoneError

PIECE_BYTES = 1024**2
TRANSACTION_PIECES = 8
"""Written at once: nobody else writes to SQLite meanwhile."""
GZIP_LEVEL = 4
"""Annotated graphs compress 20-fold already at a low level, in a tenth of the time of the highest."""
PLAIN, GZIP = "identity", "gzip"


@dataclass(frozen=True)
class Content:
    """What is known of stored bytes without reading them."""

    id: str
    sha256: str
    size_bytes: int
    """Before compression."""
    stored_bytes: int
    encoding: str
    """`identity` or `gzip`, spelled as HTTP does."""


class Contents:
    """Stores bytes, and gives them back."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put_file(self, descriptor: int, sha256: str, compress: bool) -> Content:
        """Store a file from its first byte to its last. Equal bytes are stored once."""
        size = os.fstat(descriptor).st_size
        known = self.find(sha256)
        if known is not None:
            return known
        plain = _file_pieces(descriptor)
        return self._put(sha256, size, GZIP if compress else PLAIN, _packed(plain) if compress else plain)

    def find(self, sha256: str) -> Content | None:
        """A content with these bytes, if there is one; it is kept for as long as a new one would be."""
        with self._database.writing() as connection:
            query = select(CONTENTS).where(CONTENTS.c.sha256 == sha256, CONTENTS.c.complete).limit(1)
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            connection.execute(
                update(CONTENTS).where(CONTENTS.c.id == row["id"]).values(created_at=self._database.now())
            )
        return _content(row)

    def _put(self, sha256: str, size: int, encoding: str, pieces: Iterator[bytes]) -> Content:
        content = Content(new_id(), sha256, size, 0, encoding)
        number, stored = 0, 0
        while True:
            batch = list(islice(pieces, TRANSACTION_PIECES))
            stored += sum(map(len, batch))
            is_last = len(batch) < TRANSACTION_PIECES
            with self._database.writing() as connection:
                if not number:
                    row = {**_row(content), "complete": False, "created_at": self._database.now()}
                    connection.execute(insert(CONTENTS).values(row))
                if batch:
                    rows = [{"content": content.id, "number": number + n, "data": data} for n, data in enumerate(batch)]
                    connection.execute(insert(PIECES), rows)
                if is_last:
                    finished = update(CONTENTS).where(CONTENTS.c.id == content.id)
                    connection.execute(finished.values(complete=True, stored_bytes=stored))
            number += len(batch)
            if is_last:
                return Content(content.id, sha256, size, stored, encoding)

    def get(self, content_id: str) -> Content:
        """GoneError if it is not kept any more."""
        with self._database.reading() as connection:
            row = connection.execute(select(CONTENTS).where(CONTENTS.c.id == content_id)).mappings().first()
        if row is None:
            raise GoneError("what this needs is not kept any more")
        return _content(row)

    def stored_pieces(self, content_id: str) -> Iterator[bytes]:
        """The bytes as they are stored, piece by piece."""
        number = 0
        while True:
            piece = self.stored_piece(content_id, number)
            if piece is None:
                return
            yield piece
            number += 1

    def stored_piece(self, content_id: str, number: int) -> bytes | None:
        """One piece as it is stored; None behind the last."""
        query = select(PIECES.c.data).where(PIECES.c.content == content_id, PIECES.c.number == number)
        with self._database.reading() as connection:
            data = connection.execute(query).scalar()
        return None if data is None else bytes(data)

    def restore(self, content_id: str, descriptor: int) -> None:
        """Write the bytes, as they were before compression, to a file, and nothing else into it."""
        content = self.get(content_id)
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        for piece in unpacked(self.stored_pieces(content_id), content.encoding):
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        if os.fstat(descriptor).st_size != content.size_bytes:
            raise GoneError("what this needs was deleted while it was read")

    def total_bytes(self) -> int:
        """What all contents take."""
        with self._database.reading() as connection:
            return int(connection.execute(select(func.coalesce(func.sum(CONTENTS.c.stored_bytes), 0))).scalar_one())

    def delete(self, content_ids: list[str]) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(PIECES).where(PIECES.c.content.in_(content_ids)))
            connection.execute(delete(CONTENTS).where(CONTENTS.c.id.in_(content_ids)))


def unpacked(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Stored pieces as they were before compression, none of them much larger than a piece."""
    if encoding == PLAIN:
        yield from pieces
        return
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    for piece in pieces:
        rest = piece
        while rest:
            yield unzip.decompress(rest, PIECE_BYTES)
            rest = unzip.unconsumed_tail
    yield unzip.flush()


def _packed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of one gzip file; its head has no time in it."""
    zipper = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
    held = b""
    for piece in pieces:
        held += zipper.compress(piece)
        while len(held) >= PIECE_BYTES:
            yield held[:PIECE_BYTES]
            held = held[PIECE_BYTES:]
    held += zipper.flush()
    for start in range(0, len(held), PIECE_BYTES):
        yield held[start : start + PIECE_BYTES]


def _file_pieces(descriptor: int) -> Iterator[bytes]:
    at = 0
    while piece := os.pread(descriptor, PIECE_BYTES, at):
        at += len(piece)
        yield piece


def _row(content: Content) -> dict[str, object]:
    return {
        "id": content.id,
        "sha256": content.sha256,
        "size_bytes": content.size_bytes,
        "stored_bytes": content.stored_bytes,
        "encoding": content.encoding,
    }


def _content(row: object) -> Content:
    fields = dict(row)  # type: ignore[call-overload]
    return Content(
        fields["id"], fields["sha256"], int(fields["size_bytes"]), int(fields["stored_bytes"]), fields["encoding"]
    )
