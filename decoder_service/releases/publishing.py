"""Releases made of stored results: built, compared and signed by `disclosure.release`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from disclosure.errors import PublicationError
from disclosure.release import (
    Release,
    ReleasePolicy,
    build_release,
    compare_releases,
    key_id,
    load_private_key,
    policy_changes,
    policy_of_text,
    read_release,
    read_source,
    sign_manifest,
    write_release,
)
from disclosure.release.files import SIGNATURE
from rappor_server.errors import RequestError, SettingsError

Files = Mapping[str, bytes]  # by name
Source = tuple[str, Files, Mapping[str, str]]  # id and files of a result, strata of its reports


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between two releases, for the person who approves.

    policy: by key that differs, the old and the new value.  rows: of each change its kind
    (`change`), its `table`, its `cell` ("" for a whole table), and the numbers `before` and
    `after` as text.  symbols: the meaning of each symbol that replaces a number there.
    """

    policy: Mapping[str, tuple[Any, Any]]
    rows: Sequence[Mapping[str, str]]
    symbols: Mapping[str, str] = field(default_factory=dict)


class ReleasePublisher:
    """Builds, compares and signs releases.

    key: file of the private key that approved releases are signed with; None: none is.  Raises
    SettingsError for one that cannot be used.
    """

    def __init__(self, key: Path | None = None) -> None:
        try:
            self._key = None if key is None else load_private_key(key)
        except PublicationError as error:
            raise SettingsError(f"setting release_key: {error}") from error

    @property
    def key_id(self) -> str:
        """The digest of the public key that manifests name: SHA-256, hexadecimal; "" without a
        key."""
        return "" if self._key is None else key_id(self._key.public_key())

    def sign(self, manifest: bytes) -> Files:
        """The signature file for a manifest, as `rappor release build --signing-key` writes it; no
        file without a key."""
        return {} if self._key is None else {SIGNATURE: sign_manifest(self._key, manifest) + b"\n"}

    def build(
        self, sources: Sequence[Source], policy: str, issued: date, earlier: Sequence[Files]
    ) -> tuple[Files, ReleasePolicy]:
        """Build a release: apply a policy to tables.

        Args:
            sources: results, in the order of their tables.
            policy: text of a release.toml.
            issued: day by which windows are judged to be sealed.
            earlier: files of the releases that the numbers must be consistent with, oldest first.

        Returns:
            The files of the release, and its policy.

        Raises:
            RequestError: what the policy does not allow, or a source that cannot be used.
        """
        with _folder() as folder:
            rules = policy_of_text(policy)
            tables = [
                table
                for result, files, strata in sources
                for table in read_source(_written(files, folder / result), dict(strata))
            ]
            made = build_release(tables, rules, issued, earlier=_read(earlier, folder))
            write_release(made, folder / "made", key_id=self.key_id)
            return {path.name: path.read_bytes() for path in (folder / "made").iterdir()}, rules

    def compare(self, old: Files | None, new: Files) -> Changes:
        """List what a release shows that an older one, or none, does not. Raises RequestError.

        The rows of a new table are listed one by one, too: they are what is approved.
        """
        with _folder() as folder:
            releases = _read([new] if old is None else [old, new], folder)
        later = releases[-1]
        first = releases[0] if old is not None else Release(later.policy, later.issued, ())
        return Changes(policy_changes(first, later), list(_rows(first, later)))


def _rows(old: Release, new: Release) -> Iterator[dict[str, str]]:
    none = np.zeros(0)
    columns: dict[str, Any] = dict.fromkeys(("estimate", "std_error", "low", "high"), none)
    tables = {table.name: table for table in new.tables}
    for one in compare_releases(old, new):
        yield asdict(one)
        if one.change == "new table":
            table = tables[one.table]
            empty = replace(table, cells=(), kinds=(), symbols=(), **columns)
            before, after = (replace(new, tables=(each,)) for each in (empty, table))
            yield from map(asdict, compare_releases(before, after))


def _read(releases: Sequence[Files], folder: Path) -> list[Release]:
    """Each is verified against its manifest first."""
    return [
        read_release(_written(files, folder / f"release-{number}"))
        for number, files in enumerate(releases)
    ]


def _written(files: Files, folder: Path) -> Path:
    """A new folder with these files."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / Path(name).name).write_bytes(content)
    return folder


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that is gone at the end, and in no message."""
    with TemporaryDirectory(prefix="rappor-release-") as name:
        try:
            yield Path(name)
        except PublicationError as error:
            raise RequestError(str(error).replace(f"{name}{os.sep}", "")) from error
