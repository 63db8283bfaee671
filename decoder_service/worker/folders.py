"""Folders of running jobs. They hold counts and lists, so none may outlive its worker for long.

A worker holds a lock on a file in each of its folders. The system frees the locks of a process that
ends, however it ends; a folder whose lock is free is left over. That holds in containers, where
process ids come again, and where workers of several machines share a folder.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PREFIX = "rappor-job-"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The folder of a job. `lock`: descriptor of its locked file; no child process has it."""

    path: Path
    lock: int

    def delete(self) -> None:
        """Delete the folder, then release its lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def make_folder(work: Path, job_id: str) -> JobFolder:
    """Make the folder of a job, which its owner alone can read. Raises OSError."""
    while True:  # until one is locked before another worker deletes it as left over
        path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{job_id}-", dir=work))
        with suppress(FileNotFoundError):
            lock = lock_file(path / _LOCK)
            try:
                if os.path.samestat(os.fstat(lock), (path / _LOCK).stat()):
                    return JobFolder(path, lock)
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)


def delete_left_folders(work: Path) -> None:
    """Delete the folders whose workers are gone."""
    for path in work.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or deleted meanwhile
            if _is_own(path):
                _delete_unless_locked(path)


def _delete_unless_locked(path: Path) -> None:
    lock = lock_file(path / _LOCK, wait=False)
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def lock_file(path: Path, *, wait: bool = True) -> int:
    """Open a file and lock it until its descriptor is closed, or the process ends.

    Returns the descriptor. Raises OSError where another has it and this one does not wait.
    """
    import fcntl

    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(file)
        raise
    return file


def _is_own(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
