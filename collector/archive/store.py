"""The storage of an archive: a folder, or any file system that fsspec can reach.

An archive needs three things of a store: whole files, files that only one writer can create, and
deletion. A folder gives them by fsync, link(2) and unlink; an object store by its own puts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import fsspec

from collector.archive.errors import ArchiveError


class FolderStore:
    """An archive in a local folder that its owner alone can read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return (self._root / name).open("rb")

    def read(self, name: str) -> bytes:
        """Read a whole file."""
        return (self._root / name).read_bytes()

    def list(self, folder: str) -> list[str]:
        """List the names of all complete files under a folder, sorted."""
        paths = (path for path in (self._root / folder).rglob("*") if path.is_file())
        names = (path.relative_to(self._root).as_posix() for path in paths)
        return sorted(name for name in names if not name.endswith(".part"))

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Write a new file; when the block ends it is durable. Removed if the block fails."""
        path = self._root / name
        self._make_folders(path.parent)
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
        """Write a small file durably, if no file has its name. Raises FileExistsError."""
        path = self._root / name
        part = path.with_name(f"{path.name}.{token_hex(8)}.part")
        with self.writing(part.relative_to(self._root).as_posix()) as file:
            file.write(content)
        try:
            os.link(part, path)
        finally:
            part.unlink(missing_ok=True)
        _sync(path.parent)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        path = self._root / name
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            _sync(path.parent)

    def _make_folders(self, folder: Path) -> None:
        """Make folders for their owner alone, each durably in its parent."""
        if folder.is_dir():
            return
        self._make_folders(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)


class RemoteStore:
    """An archive in an fsspec file system. A put is taken to be whole and durable when it returns.

    `create` is exclusive where the file system's own is (S3 by If-None-Match).
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
        """List the names of all files under a folder, sorted; an empty list if the folder does
        not exist."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._path(folder))
        except FileNotFoundError:
            return []
        start = len(self._path("x")) - 1
        return sorted(path[start:] for path in found)

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Write a new file; when the block ends it is complete. Removed if the block fails."""
        try:
            with self._fs.open(self._path(name), "wb") as file:
                yield file
        except BaseException:
            self.delete(name)
            raise

    def create(self, name: str, content: bytes) -> None:
        """Write a small file, if no file has its name. Raises FileExistsError."""
        self._fs.pipe_file(self._path(name), content, mode="create")

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        self._fs.invalidate_cache()
        if self._fs.exists(self._path(name)):
            self._fs.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


Store = FolderStore | RemoteStore


def open_store(url: str) -> Store:
    """The store of a path or of an fsspec URL (`s3://bucket/archive`).

    Raises ArchiveError for a scheme that is not installed.
    """
    if "://" not in url or url.startswith("file://"):
        return FolderStore(Path(url.removeprefix("file://")))
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise ArchiveError(f"archive {url!r} cannot be reached: {error}") from None
    return RemoteStore(filesystem, path.rstrip("/"))


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
