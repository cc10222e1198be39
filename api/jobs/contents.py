"""Bytes in the store: models, results and artifacts, in pieces of a size that a transaction can bear."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, or_, select, update

from api.jobs.database import Database
from api.jobs.identities import digest_of_file, new_id
from api.jobs.room import CONTENT_BYTES, Room, number_of
from api.jobs.tables import BODIES, CONTENTS, JOBS, PIECES, RESULTS
from api.problems import GoneError

PIECE_BYTES = 1024**2
TRANSACTION_PIECES = 8
"""Of a body, written at once: nobody else writes to SQLite meanwhile."""
GZIP_LEVEL = 4
"""Annotated graphs compress 20-fold already at a low level, in a tenth of the time of the highest."""
PLAIN, GZIP = "identity", "gzip"
FRESH_SECONDS = 300.0
"""So long bytes that no job names yet may be on their way into one."""
SETTLED = 0.0
"""The time of contents that some job has named: they stay as long as it does."""

IS_NAMED = or_(
    exists().where(BODIES.c.content == CONTENTS.c.id),
    exists().where(RESULTS.c.content == CONTENTS.c.id),
    exists().where(JOBS.c.result == CONTENTS.c.id),
)
"""Whether anything needs a content."""


@dataclass(frozen=True)
class Source:
    """Bytes in a file as they are to lie in the store, and what they are before compression."""

    descriptor: int
    sha256: str
    size_bytes: int
    stored_bytes: int
    encoding: str

    @staticmethod
    def plain(descriptor: int, sha256: str | None = None) -> Source:
        """All bytes of a file; their hash may be known already."""
        size = os.fstat(descriptor).st_size
        return Source(descriptor, sha256 or digest_of_file(descriptor), size, size, PLAIN)

    @staticmethod
    def packed(descriptor: int, target: int) -> Source:
        """The same, compressed into another file, which is empty."""
        zipper = zlib.compressobj(GZIP_LEVEL, wbits=zlib.MAX_WBITS | 16)
        for piece in _file_pieces(descriptor):
            _write(target, zipper.compress(piece))
        _write(target, zipper.flush())
        size, stored = os.fstat(descriptor).st_size, os.fstat(target).st_size
        return Source(target, digest_of_file(descriptor), size, stored, GZIP)


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

    def __init__(self, database: Database, room: Room) -> None:
        self._database = database
        self._room = room

    def put(self, source: Source) -> tuple[Content, bool]:
        """Store a body, and tell whether that was needed: equal bytes are stored once, and kept for a while for the
        job that is to name them. NoRoomError, before anything is kept, if there is no room for all of it."""
        pieces = enumerate(_file_pieces(source.descriptor))
        with self._database.writing() as connection:
            known = self._known(connection, source.sha256, self._database.now())
            if known is not None:
                return known, False
            is_small = source.stored_bytes <= TRANSACTION_PIECES * PIECE_BYTES
            content = self._added(connection, source, complete=is_small, at=self._database.now())
            self._write(connection, content, islice(pieces, TRANSACTION_PIECES))
            self._room.change(connection, content.stored_bytes + CONTENT_BYTES)
        while not is_small:
            with self._database.writing() as connection:
                if not self._write(connection, content, islice(pieces, TRANSACTION_PIECES)):
                    connection.execute(update(CONTENTS).where(CONTENTS.c.id == content.id).values(complete=True))
                    break
        return content, True

    def add(self, connection: Connection, source: Source) -> tuple[Content, int]:
        """Store the whole of an answer in the transaction that names it; the bytes that this has taken, for which the
        caller finds room."""
        known = self._known(connection, source.sha256, SETTLED)
        if known is not None:
            return known, 0
        content = self._added(connection, source, complete=True, at=SETTLED)
        self._write(connection, content, enumerate(_file_pieces(source.descriptor)))
        return content, content.stored_bytes + CONTENT_BYTES

    def _known(self, connection: Connection, sha256: str, at: float | ColumnElement[float]) -> Content | None:
        """A content with these bytes, if there is one; it stays where it is until the transaction ends."""
        query = select(CONTENTS).where(CONTENTS.c.sha256 == sha256, CONTENTS.c.complete).limit(1).with_for_update()
        row = connection.execute(query).mappings().first()
        if row is None:
            return None
        if row["created_at"] != SETTLED:
            connection.execute(update(CONTENTS).where(CONTENTS.c.id == row["id"]).values(created_at=at))
        return _content(row)

    def _added(
        self, connection: Connection, source: Source, complete: bool, at: float | ColumnElement[float]
    ) -> Content:
        content = Content(new_id(), source.sha256, source.size_bytes, source.stored_bytes, source.encoding)
        connection.execute(insert(CONTENTS).values(**vars(content), complete=complete, created_at=at))
        return content

    @staticmethod
    def _write(connection: Connection, content: Content, pieces: Iterator[tuple[int, bytes]]) -> bool:
        """Store numbered pieces; whether there were any."""
        is_any = False
        for number, data in pieces:
            connection.execute(insert(PIECES).values(content=content.id, number=number, data=data))
            is_any = True
        return is_any

    def settle(self, connection: Connection, contents: Sequence[str]) -> int:
        """Have a job name contents, in its transaction; the bytes that they take. GoneError if one is not there."""
        if not contents:
            return 0
        mine = CONTENTS.c.id.in_(contents)
        settled = update(CONTENTS).where(mine).values(created_at=SETTLED)
        found = connection.execute(settled.returning(number_of(CONTENTS.c.stored_bytes))).scalars().all()
        if len(found) != len(set(contents)):
            raise GoneError("what this needs is not kept any more")
        return sum(found)

    def delete_unneeded(self, contents: Sequence[str]) -> int:
        """Delete those of these contents that neither a job nor a result names; how many."""
        with self._database.writing() as connection:
            # One that somebody is about to name is locked by them.
            mine = select(CONTENTS.c.id).where(CONTENTS.c.id.in_(contents)).with_for_update(skip_locked=True)
            ids = connection.execute(mine).scalars().all()
            unneeded = delete(CONTENTS).where(CONTENTS.c.id.in_(ids), ~IS_NAMED)
            sizes = connection.execute(unneeded.returning(number_of(CONTENTS.c.stored_bytes))).scalars().all()
            self._room.change(connection, -sum(sizes) - len(sizes) * CONTENT_BYTES)
        return len(sizes)

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
            _write(descriptor, piece)
        if digest_of_file(descriptor) != content.sha256:
            raise GoneError("what this needs was damaged, or deleted while it was read")


def unpacked(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Stored pieces as they were before compression, none of them much larger than a piece."""
    if encoding == PLAIN:
        yield from pieces
        return
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        for piece in pieces:
            rest = piece
            while rest:
                yield unzip.decompress(rest, PIECE_BYTES)
                rest = unzip.unconsumed_tail
        yield unzip.flush()
    except zlib.error as error:
        raise GoneError("what this needs is damaged") from error


def _file_pieces(descriptor: int) -> Iterator[bytes]:
    at = 0
    while piece := os.pread(descriptor, PIECE_BYTES, at):
        at += len(piece)
        yield piece


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _content(row: Mapping[Any, Any]) -> Content:
    try:
        sizes = int(row["size_bytes"]), int(row["stored_bytes"])
    except (TypeError, ValueError) as error:
        raise GoneError("what this needs is damaged") from error
    return Content(row["id"], row["sha256"], *sizes, row["encoding"])
