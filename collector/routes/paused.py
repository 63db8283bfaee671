"""`GET /v1/paused`: the signed list of paused metrics, as its owner wrote it.

The collector cannot sign one, and devices believe nobody but its signer. It is read anew for each
request, so that a file which is replaced is served at once. What has not the form of a list is not
served: it is another file, and may be a secret.
"""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from collector.errors import NotFoundError, SettingsError
from collector.routes.dependencies import parts_of
from ohttp.pause_wire import LIST_TYPE, MOST_BYTES, PauseListError, unverified
from rappor_core.errors import file_problem


def read_list(file: Path | None) -> bytes:
    """The bytes of the list. Raises NotFoundError where there is none."""
    if file is None:
        raise NotFoundError("nothing is paused: the setting paused_list names a signed list")
    try:
        return _read(file)
    except OSError:
        raise NotFoundError("nothing is paused: the list of the setting cannot be read") from None
    except PauseListError:
        raise NotFoundError("nothing is paused: the file of the setting is no list") from None


def check_list(file: Path | None) -> None:
    """Refuse to start with a setting that names no list. Raises SettingsError."""
    try:
        if file is not None:
            _read(file)
    except (OSError, PauseListError) as error:
        why = file_problem(error) if isinstance(error, OSError) else str(error)
        raise SettingsError(
            f"paused_list = {str(file)!r}: {why}; rappor pause sign writes one, which may pause "
            "nothing"
        ) from None


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    unverified(data)
    return data


def get_paused(request: Request) -> Response:
    """The list, for every device alike: it needs no key."""
    return Response(read_list(parts_of(request).settings.paused_list), media_type=LIST_TYPE)
