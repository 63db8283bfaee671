"""The file in which a reader remembers verified releases, so that an old one shown again is
recognised.

A signature does not say that nothing newer was published. Who remembers what was seen can tell when
an old release is shown again; who sees a first one cannot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from disclosure.errors import ReleaseError, VerificationError
from disclosure.release.verification import Verified
from rappor_core.errors import RapporError, file_problem
from rappor_core.strict_json import parse_strict_json
from rappor_core.whole_files import write_whole

_VERSION = 1


def check_latest(found: Verified, memory: Path) -> None:
    """Refuse a release that a later one, verified before, was built on; remember this one.

    Args:
        found: a release that was verified.
        memory: file of what was seen; made where it is not there.

    Raises:
        VerificationError: it is an old one.
        ReleaseError: the file cannot be read or written.
    """
    replaced = _read(memory)
    if found.digest in replaced:
        raise VerificationError(
            f"this release of {found.issued} is an old one: that of {replaced[found.digest]} was "
            "built on it, and you have verified that one before"
        )
    new = dict.fromkeys(found.earlier, found.issued)
    text = json.dumps({"version": _VERSION, "replaced": replaced | new}, indent=2, sort_keys=True)
    try:
        write_whole(memory, f"{text}\n")
    except OSError as error:
        raise ReleaseError(f"{memory} cannot be written: {file_problem(error)}") from None


def _read(memory: Path) -> dict[str, str]:
    """Day of issue of the later release, by digest of the earlier one."""
    try:
        made: Any = parse_strict_json(memory.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ReleaseError(f"{memory}: {file_problem(error)}") from None
    except RapporError as error:
        raise ReleaseError(f"{memory}: {error}") from None
    replaced = made.get("replaced") if isinstance(made, Mapping) else None
    if not isinstance(replaced, Mapping) or made.get("version") != _VERSION:
        raise ReleaseError(f"{memory} is not what `rappor release verify --latest` writes")
    return {str(digest): str(issued) for digest, issued in replaced.items()}
