"""Files of results and of releases, as they are stored: compressed, by the id of their owner."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from decoder_service.shell.models import release_files, result_files

_LEVEL = 6  # of zlib; the same input gives the same bytes


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file without its content. sha256, size: of its bytes before compression."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class FileTable:
    """The files in one table. owner: its column of ids."""

    table: Table
    owner: str

    def save(self, db: Session, owner: str, files: Mapping[str, bytes]) -> int:
        """Insert files of a result or release; return how many bytes they take."""
        rows: list[dict[str, Any]] = [
            {
                self.owner: owner,
                "name": name,
                "sha256": sha256(content).hexdigest(),
                "size": len(content),
                "content": zlib.compress(content, _LEVEL),
            }
            for name, content in files.items()
        ]
        if rows:
            db.execute(insert(self.table), rows)
        return sum(len(row["content"]) for row in rows)

    def list(self, db: Session, owner: str) -> list[StoredFile]:
        """The files of a result or release, by name."""
        columns = self.table.c
        own = select(columns.name, columns.sha256, columns.size).where(columns[self.owner] == owner)
        return [StoredFile(*row) for row in db.execute(own.order_by(columns.name))]

    def read(self, db: Session, owner: str, name: str) -> bytes | None:
        """The bytes of a file; None where there is none, or they were deleted."""
        columns = self.table.c
        own = (columns[self.owner] == owner, columns.name == name)
        content = db.scalar(select(columns.content).where(*own))
        return zlib.decompress(content) if content else None


RESULT_FILES = FileTable(result_files, "result_id")
RELEASE_FILES = FileTable(release_files, "release_id")
