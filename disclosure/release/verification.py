"""Verification of published releases: signature, digests, and replay of an old release.

A signature does not prove that a release is the newest. A memory of verified releases detects the
replay of an old release, but not for a reader without such a memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, with_config

from disclosure.errors import ReleaseError, VerificationError
from disclosure.files import LENIENT, naming, parse, to_json
from disclosure.release.build import Release
from disclosure.release.files import MANIFEST, SIGNATURE, digest_file, release_from_json
from disclosure.release.signature import check_signature
from rappor_core.errors import file_problem, shown
from rappor_core.whole_files import write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9]+)+", re.ASCII)
_MAX_MANIFEST = 1 << 20  # bytes


@dataclass(frozen=True)
class Verified:
    """A verified release, as described by its manifest."""

    owner: str
    audience: str
    issued: str
    files: tuple[str, ...]  # Names
    signed: bool  # By one of the given keys
    digest: str  # The digest of the manifest
    earlier: tuple[str, ...]  # Digests of the releases that it was built on


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in (MANIFEST, SIGNATURE):
        raise ValueError("this is not the name of a file of a release")
    return name


_FileName = Annotated[str, AfterValidator(_check_name)]


@with_config(LENIENT)
@dataclass(frozen=True)
class _File:
    """A file's entry in a manifest."""

    bytes: int
    sha256: str


@with_config(LENIENT)
@dataclass(frozen=True)
class _Manifest:
    format: Literal["rappor-release"]
    version: Literal[1]
    owner: str
    audience: str
    issued: str
    earlier: tuple[str, ...]
    files: Annotated[Mapping[_FileName, _File], Field(min_length=1)]


@with_config(LENIENT)
@dataclass(frozen=True)
class _Memory:
    """By digest of a verified earlier release, the issue day of a release built on it."""

    version: Literal[1] = 1
    replaced: Mapping[str, str] = field(default_factory=dict)


def verify_release(folder: Path, public: Sequence[Ed25519PublicKey]) -> Verified:
    """Verify the signature of a manifest, then every file against it.

    Args:
        folder: The folder of a release.
        public: The owner's keys, obtained elsewhere than from the folder; one of them must have
            signed it. If empty, only digests are checked, which detects accidents, but not
            tampering by someone who can write a manifest.

    Returns:
        The manifest's description.

    Raises:
        VerificationError: The signature is wrong; a file is missing, changed or not listed; or the
            manifest names anything but a plain file in the folder.
        ReleaseError: There is no manifest.
    """
    path = folder / MANIFEST
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_MANIFEST:
            raise VerificationError(f"{path} is a link, or too large for a manifest")
        text = path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None
    if public:
        path = folder / SIGNATURE
        try:
            signature = path.read_bytes()[:1024]
        except OSError:
            raise VerificationError(f"{path} is missing: the release is not signed") from None
        check_signature(public, text, signature)
    with naming(Path(MANIFEST)):
        manifest = parse(_Manifest, text, VerificationError)
    _check_files(folder, manifest.files)
    facts = manifest.owner, manifest.audience, manifest.issued, tuple(manifest.files)
    return Verified(*facts, bool(public), sha256(text).hexdigest(), manifest.earlier)


def read_release(folder: Path, public: Sequence[Ed25519PublicKey] = ()) -> Release:
    """Verify a release folder, then read it. Raises the errors of `verify_release`."""
    digest = verify_release(folder, public).digest
    try:
        return release_from_json((folder / "release.json").read_bytes(), digest)
    except OSError as error:
        raise ReleaseError(f"{folder}: release.json: {file_problem(error)}") from None
    except ReleaseError as error:
        raise ReleaseError(f"{folder}: release.json: {error}") from None


def _check_files(folder: Path, files: Mapping[str, _File]) -> None:
    """Check that exactly the listed files exist, unchanged."""
    strangers = {path.name for path in folder.iterdir()} - {*files, MANIFEST, SIGNATURE}
    if strangers:
        raise VerificationError(f"{folder} contains {shown(min(strangers))}, which is not signed")
    for name, listed in files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise VerificationError(f"{path} is missing, or is not a plain file")
        if path.stat().st_size != listed.bytes or digest_file(path) != listed.sha256:
            raise VerificationError(f"{path} was changed after the release was made")
    if "release.json" not in files:
        raise VerificationError("release.json is not among the files")


def check_latest(release: Verified, memory: Path) -> None:
    """Reject a release if a later, verified release was built on it; remember this release.

    Args:
        release: A verified release.
        memory: The file of verified releases, created if missing.

    Raises:
        VerificationError: The release is outdated.
        ReleaseError: The file cannot be read or written.
    """
    try:
        replaced = parse(_Memory, memory.read_bytes(), ReleaseError).replaced
    except FileNotFoundError:
        replaced = {}
    except OSError as error:
        raise ReleaseError(f"{memory}: {file_problem(error)}") from None
    except ReleaseError as error:
        raise ReleaseError(
            f"{memory} is not what `rappor release verify --latest` writes: {error}"
        ) from None
    if release.digest in replaced:
        raise VerificationError(
            f"this release of {release.issued} is outdated: the release of "
            f"{replaced[release.digest]}, which you verified before, was built on it"
        )
    new = _Memory(replaced={**replaced, **dict.fromkeys(release.earlier, release.issued)})
    try:
        write_whole(memory, to_json(new, indent=2))
    except OSError as error:
        raise ReleaseError(f"{memory} cannot be written: {file_problem(error)}") from None
