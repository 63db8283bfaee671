"""Releases of a decoder service from Python: list, read, compare, decide, download.

Standard library only; pandas for `to_frame`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from decoder.errors import OutputError, RemoteError
from decoder.notebook import html_table, to_frame
from decoder_client.http import Kept, no_table
from rappor_core.errors import file_problem

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9]+)+", re.ASCII)  # as releases have them
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_READ = {"number": float, "integer": int}


@dataclass(frozen=True)
class ReleaseDifference:
    """How a release differs from the last approved one of its name.

    policy: by key, the value before and now.  changes: rows of `change`, `table`, `cell`, `before`
    and `after`.
    """

    policy: Mapping[str, Any]
    changes: list[dict[str, str]]

    def to_frame(self) -> Any:
        """The changes as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
        return to_frame(self.changes, _CHANGE)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        rows = [[one.get(name, "") for name in _CHANGE] for one in self.changes]
        notes = [f"policy: {name}: {told[0]} -> {told[1]}" for name, told in self.policy.items()]
        return html_table("Changes of a release", _CHANGE, rows, notes)


_CHANGE = ("change", "table", "cell", "before", "after")


class ServiceRelease(Kept):
    """A release at the service, as of the latest request; `refresh` updates it."""

    route = "/v1/releases"

    @property
    def state(self) -> str:
        """The release's state: proposed, approved, rejected or withdrawn."""
        return str(self.row["state"])

    @property
    def digest(self) -> str:
        """SHA-256 of the release's manifest, in hex."""
        return str(self.row["digest"])

    def approve(self, reason: str) -> ServiceRelease:
        """Publish what another person proposed; for admins. Settled for good."""
        return self._decide("approve", reason)

    def reject(self, reason: str) -> ServiceRelease:
        """Refuse what another person proposed; for admins. Settled for good."""
        return self._decide("reject", reason)

    def withdraw(self, reason: str = "") -> ServiceRelease:
        """Withdraw a release that you proposed, before it is approved or rejected; its files are
        deleted."""
        return self._decide("withdraw", reason)

    def difference(self) -> ReleaseDifference:
        """What the release would change against the last approved one. Only its proposer and
        admins may ask."""
        found = self.service.ask("GET", f"{self.path}/difference")
        return ReleaseDifference(found["policy"], found["changes"])

    def file(self, name: str) -> bytes:
        """Download one file of the release, byte for byte."""
        return self.service.read("GET", f"{self.path}/files/{name}")

    def rows(self) -> list[dict[str, Any]]:
        """The rows of release.csv as dictionaries, with numbers as numbers and withheld ones as
        None.

        Texts are as in the file, made safe for spreadsheets. Raises RemoteError for other files.
        """
        try:
            fields = json.loads(self.file("datapackage.json"))["resources"][0]["schema"]["fields"]
            read = {str(one["name"]): _READ.get(one["type"], str) for one in fields}
            lines = csv.DictReader(io.StringIO(self.file("release.csv").decode()))
            return [{name: _cell(read[name], text) for name, text in row.items()} for row in lines]
        except (*_UNREADABLE, csv.Error) as error:
            raise no_table(f"release {self.id}", error) from None

    def to_frame(self) -> Any:
        """`rows` as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
        rows = self.rows()
        return to_frame(rows, list(dict.fromkeys(name for row in rows for name in row)))

    def save(self, folder: Path) -> Path:
        """Write the release's files into a new folder that `rappor release verify` can check.

        Each is compared with the digest that the service tells, and the manifest with the
        release's. Who made them is told by the signature alone.

        Raises:
            RemoteError: a file is not as its digest says, or has no name of a release's file.
            OutputError: the folder exists, or cannot be written.
        """
        files = self._downloaded()
        try:
            folder.mkdir()
            for name, content in files.items():
                (folder / name).write_bytes(content)
        except OSError as error:
            raise OutputError(f"{folder}: {file_problem(error)}") from None
        return folder

    def _downloaded(self) -> dict[str, bytes]:
        """Every file, by name. Raises RemoteError."""
        files = {}
        listed = self.refresh().row["files"]
        if not isinstance(listed, list) or not all(isinstance(told, dict) for told in listed):
            raise RemoteError(f"release {self.id} has no list of its files")
        for told in listed:
            name = str(told["name"])
            if not _NAME.fullmatch(name):
                raise RemoteError(f"release {self.id}: {name[:70]!a} is no name of its files")
            files[name] = self.file(name)
            if sha256(files[name]).hexdigest() != told["sha256"]:
                raise RemoteError(f"release {self.id}: {name} is not as its digest says")
        if sha256(files.get("manifest.json", b"")).hexdigest() != self.digest:
            raise RemoteError(f"release {self.id}: its manifest is not as its digest says")
        return files

    def _decide(self, act: str, reason: str) -> ServiceRelease:
        self.row = self.service.ask("POST", f"{self.path}/{act}", body={"reason": reason})
        return self

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        columns = ("name", "number", "state", "issued", "owner", "audience", "digest")
        return html_table("ServiceRelease", columns, [[self.row.get(name) for name in columns]])


def _cell(read: type, text: str | None) -> Any:
    return None if text in (None, "") else read(text)
