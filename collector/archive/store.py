"""The storage of an archive: a folder, or any file system that fsspec can reach.

An archive needs whole files, files that only one writer can create, and deletion. A folder provides
these with fsync, link(2) and unlink; an object store provides them with its put operation.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from rappor_core.errors import RapporError

_INCOMPLETE = ".part"  # the suffix of a file that is not complete yet


class ArchiveError(RapporError):
    """The base class of the archive's errors."""


class ArchiveDamagedError(ArchiveError):
    """An archive file that is missing, truncated or edited, or does not match its entry."""


class NotArchivedError(ArchiveError):
    """A window that the archive does not contain, or that would split one of its parts."""


class Store:
    """An archive in an fsspec file system, where a finished put is complete and durable.

    `create` is exclusive if the file system supports it (S3 with If-None-Match).
    """

    def __init__(self, filesystem: Any, root: str) -> None:
        self._fs = filesystem
        self._root = root

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        file: IO[bytes] = self._fs.open(self._path(name), "rb", cache_type="readahead")
        return file

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        content: bytes = self._fs.cat_file(self._path(name))
        return content

    def list(self, folder: str) -> list[str]:
        """Return the sorted names of all complete files under a folder; empty if missing."""
        self._fs.invalidate_cache()
        try:
            paths = self._fs.find(self._path(folder))
        except FileNotFoundError:
            return []
        start = len(self._path("x")) - 1
        return sorted(path[start:] for path in paths if not path.endswith(_INCOMPLETE))

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Write a new file: durable when the block ends, removed if the block fails."""
        try:
            with self._fs.open(self._path(name), "wb") as file:
                yield file
        except BaseException:
            self.delete(name)
            raise

    def create(self, name: str, content: bytes) -> None:
        """Write a small new file. Raises FileExistsError if the name is taken."""
        self._fs.pipe_file(self._path(name), content, mode="create")

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self._fs.invalidate_cache()
        if self._fs.exists(self._path(name)):
            self._fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class FolderStore(Store):
    """An archive in a local folder that only its owner can read; all writes are synced."""

    def __init__(self, root: Path) -> None:
        super().__init__(LocalFileSystem(), root.absolute().as_posix())

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Write a new file: durable when the block ends, removed if the block fails."""
        path = Path(self._path(name))
        _make_folders(path.parent)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _sync(path.parent)

    def create(self, name: str, content: bytes) -> None:
        """Write a small new file durably. Raises FileExistsError if the name is taken."""
        path = Path(self._path(name))
        part = f"{name}.{token_hex(8)}{_INCOMPLETE}"
        with self.writing(part) as file:
            file.write(content)
        try:
            path.hardlink_to(self._path(part))
        finally:
            self.delete(part)
        _sync(path.parent)


def open_store(url: str) -> Store:
    """Return the store at a path or an fsspec URL (`s3://bucket/archive`).

    Raises ArchiveError if the URL scheme is not installed.
    """
    if "://" not in url or url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        if folder.is_file():
            raise ArchiveError(f"{url!r} is a file, not the folder of an archive")
        return FolderStore(folder)
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ArchiveError(f"archive {url!r} cannot be reached: {error}") from None
    return Store(filesystem, path.rstrip("/"))


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
