"""Check and read releases that were published: signature, digests, and whether one is an old one.

A signature does not say that nothing newer was published. Who remembers what was seen can tell when
an old release is shown again; who sees a first one cannot.
"""

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


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name in (MANIFEST, SIGNATURE):
        raise ValueError("this is not the name of a file of a release")
    return name


_FileName = Annotated[str, AfterValidator(_check_name)]


@with_config(LENIENT)
@dataclass(frozen=True)
class _File:
    """What a manifest says of a file."""

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
    """Day of issue of the later release, by digest of the earlier one."""

    version: Literal[1] = 1
    replaced: Mapping[str, str] = field(default_factory=dict)


def verify_release(folder: Path, public: Sequence[Ed25519PublicKey]) -> Verified:
    """Check the signature of a manifest, then every file against it.

    Args:
        folder: of a release.
        public: keys of the owner, from elsewhere than the folder: one of them has signed it. None:
            only the digests are checked, which detects accidents, not tampering by a person who can
            write a manifest.

    Returns:
        What the manifest says.

    Raises:
        VerificationError: a wrong signature; a file that is missing, changed, or not listed; a
            manifest that names anything but a plain file in the folder.
        ReleaseError: there is no manifest.
    """
    path = folder / MANIFEST
    try:
        if path.is_symlink() or path.stat().st_size > _MAX_MANIFEST:
            raise VerificationError(f"{path} is a link, or larger than a manifest is")
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
    """Verify a release folder, then read it. Raises as `verify_release`."""
    digest = verify_release(folder, public).digest
    try:
        return release_from_json((folder / "release.json").read_bytes(), digest)
    except OSError as error:
        raise ReleaseError(f"{folder}: release.json: {file_problem(error)}") from None
    except ReleaseError as error:
        raise ReleaseError(f"{folder}: release.json: {error}") from None


def _check_files(folder: Path, files: Mapping[str, _File]) -> None:
    """Every file that is listed is there, as it was, and nothing else is."""
    strangers = {path.name for path in folder.iterdir()} - {*files, MANIFEST, SIGNATURE}
    if strangers:
        raise VerificationError(f"{folder} holds {shown(min(strangers))}, which nobody signed")
    for name, listed in files.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            raise VerificationError(f"{path} is missing, or is no plain file")
        if path.stat().st_size != listed.bytes or digest_file(path) != listed.sha256:
            raise VerificationError(f"{path} was changed after the release was made")
    if "release.json" not in files:
        raise VerificationError("release.json is not among the files")


def check_latest(release: Verified, memory: Path) -> None:
    """Refuse a release that a later one, verified before, was built on; remember this one.

    Args:
        release: a release that was verified.
        memory: file of what was seen; made where it is not there.

    Raises:
        VerificationError: it is an old one.
        ReleaseError: the file cannot be read or written.
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
            f"this release of {release.issued} is an old one: that of {replaced[release.digest]} "
            "was built on it, and you have verified that one before"
        )
    new = _Memory(replaced={**replaced, **dict.fromkeys(release.earlier, release.issued)})
    try:
        write_whole(memory, to_json(new, indent=2))
    except OSError as error:
        raise ReleaseError(f"{memory} cannot be written: {file_problem(error)}") from None
