"""Check that the files of a release folder are those that its owner has signed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from disclosure.errors import ReleaseError, VerificationError
from disclosure.release.build import Release
from disclosure.release.files import FORMAT, MANIFEST, SIGNATURE, VERSION, digest_file
from disclosure.release.plain import release_from_plain
from disclosure.release.signature import check_signature
from rappor_core.errors import RapporError, file_problem, shown
from rappor_core.strict_json import parse_strict_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9]+)+", re.ASCII)
_MOST_MANIFEST = 1 << 20  # bytes


@dataclass(frozen=True)
class Verified:
    """A release that was verified. owner, audience, issued: as the manifest says. files: names.
    signed: by a key given.

    digest: of the manifest.  earlier: digests of those that it was built on.
    """

    owner: str
    audience: str
    issued: str
    files: tuple[str, ...]
    signed: bool
    digest: str
    earlier: tuple[str, ...]


def verify_release(folder: Path, public: Sequence[Ed25519PublicKey]) -> Verified:
    """Check the signature of a manifest, then every file against it.

    Args:
        folder: of a release.
        public: keys of the owner, from elsewhere than the folder: one of them has signed it. None:
            only the digests are checked, which tells of accidents and not of anybody who can write
            a manifest.

    Returns:
        What the manifest says.

    Raises:
        VerificationError: a wrong signature; a file that is missing, changed, or not listed; a
            manifest that names anything but a plain file in the folder.
        ReleaseError: there is no manifest.
    """
    text = _manifest_bytes(folder)
    if public:
        check_signature(public, text, _signature(folder))
    try:
        made = parse_strict_json(text)
        _check_form(made)
    except RapporError as error:
        raise VerificationError(f"{MANIFEST}: {error}") from None
    _check_files(folder, made["files"])
    return Verified(
        made["owner"],
        made["audience"],
        made["issued"],
        tuple(made["files"]),
        bool(public),
        sha256(text).hexdigest(),
        tuple(made["earlier"]),
    )


def read_release(folder: Path, public: Sequence[Ed25519PublicKey] = ()) -> Release:
    """Verify a release folder, then read it. Raises as `verify_release`."""
    digest = verify_release(folder, public).digest
    try:
        plain = parse_strict_json((folder / "release.json").read_bytes())
        return release_from_plain(plain, digest)
    except OSError as error:
        raise ReleaseError(f"{folder}: release.json: {file_problem(error)}") from None
    except RapporError as error:
        raise ReleaseError(f"{folder}: {error}") from None


def _manifest_bytes(folder: Path) -> bytes:
    path = folder / MANIFEST
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_MANIFEST:
            raise VerificationError(f"{path} is a link, or larger than a manifest is")
        return path.read_bytes()
    except OSError as error:
        raise ReleaseError(f"{path}: {file_problem(error)}") from None


def _signature(folder: Path) -> bytes:
    path = folder / SIGNATURE
    try:
        return path.read_bytes()[:1024]
    except OSError:
        raise VerificationError(f"{path} is missing: the release is not signed") from None


def _check_form(made: Any) -> None:
    """Raise VerificationError unless it is a manifest of this version."""
    if not isinstance(made, Mapping) or made.get("format") != FORMAT:
        raise VerificationError("this is no manifest of a release")
    if made.get("version") != VERSION:
        raise VerificationError(f"version {shown(made.get('version'))} is not {VERSION}")
    if not all(isinstance(made.get(name), str) for name in ("owner", "audience", "issued")):
        raise VerificationError("owner, audience or day of issue is missing")
    known = made.get("earlier")
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise VerificationError("the digests of earlier releases are missing")
    if not isinstance(made.get("files"), Mapping) or not made["files"]:
        raise VerificationError("it lists no files")
    for name, told in made["files"].items():
        if not _NAME.fullmatch(name) or name in (MANIFEST, SIGNATURE):
            raise VerificationError(f"{shown(name)} is not the name of a file of a release")
        if not isinstance(told, Mapping) or not isinstance(told.get("sha256"), str):
            raise VerificationError(f"{name} has no digest")


def _check_files(folder: Path, files: Mapping[str, Any]) -> None:
    """Every file that is listed is there, as it was, and nothing else is."""
    strangers = {path.name for path in folder.iterdir()} - {*files, MANIFEST, SIGNATURE}
    if strangers:
        raise VerificationError(f"{folder} holds {shown(min(strangers))}, which nobody signed")
    for name, told in files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise VerificationError(f"{path} is missing, or is no plain file")
        if path.stat().st_size != told.get("bytes") or digest_file(path) != told["sha256"]:
            raise VerificationError(f"{path} was changed after the release was made")
    if "release.json" not in files:
        raise VerificationError("release.json is not among the files")
