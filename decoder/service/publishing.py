"""The port through which the service makes releases.

Releases are of another package, which lies above the decoder: whoever starts the service gives
what builds and compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Protocol

Files = Mapping[str, bytes]  # by name
MANIFEST = "manifest.json"  # of a release: digests of its files, and the id of the key, or ""
SIGNATURE = "manifest.sig"


@dataclass(frozen=True, slots=True)
class SourceTables:
    """A stored result as `files` of its kind. strata: what its reports were filtered by."""

    result_id: str
    files: Files
    strata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Built:
    """A release. owner, audience: of its policy. digest: SHA-256 of its manifest."""

    files: Files
    owner: str
    audience: str
    digest: str


@dataclass(frozen=True, slots=True)
class Changes:
    """How a release differs from another one, for whoever approves it.

    policy: by key that differs, the old and the new value.  rows: of each change its kind
    (`change`), its `table`, its `cell` ("" for a whole table), and the numbers `before` and
    `after` as text.  symbols: what each of those means that stand for a number there.
    """

    policy: Mapping[str, tuple[Any, Any]]
    rows: Sequence[Mapping[str, str]]
    symbols: Mapping[str, str] = field(default_factory=dict)


class Publisher(Protocol):
    """What makes releases.

    key_id: of the key that approved releases are signed with, which manifests name; "" without one.
    """

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key, hexadecimal; "" where nothing is signed."""

    def build(
        self, sources: Sequence[SourceTables], policy: str, issued: date, earlier: Sequence[Files]
    ) -> Built:
        """Apply a policy to tables.

        Args:
            sources: results, in the order in which their tables are to stand.
            policy: text of a release.toml.
            issued: day by which windows are judged to be sealed.
            earlier: files of the releases that the numbers must be consistent with, oldest first.

        Returns:
            The release.

        Raises:
            RequestError: what the policy does not allow, or a source that cannot be used.
        """

    def compare(self, old: Files | None, new: Files) -> Changes:
        """What a release shows that an older one, or none, does not. Raises RequestError."""

    def sign(self, manifest: bytes) -> Files:
        """The files that a signature adds to a release. manifest: its bytes, naming this key."""
