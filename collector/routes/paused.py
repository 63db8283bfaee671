"""`GET /v1/paused`: the signed list of paused metrics, as its owner wrote it.

The collector cannot sign one, and devices believe nobody but its signer. It is read anew for each
request, so that a file which is replaced is served at once.
"""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from collector.errors import NotFoundError
from collector.routes.dependencies import parts_of
from ohttp.pause_wire import LIST_TYPE, MOST_BYTES, SIGNATURE_BYTES


def read_list(file: Path | None) -> bytes:
    """The bytes of the list. Raises NotFoundError where there is none."""
    if file is None:
        raise NotFoundError("nothing is paused: the setting paused_list names a signed list")
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError:
        raise NotFoundError("nothing is paused: the list of the setting cannot be read") from None
    if not SIGNATURE_BYTES < len(data) <= MOST_BYTES:
        raise NotFoundError("nothing is paused: the file of the setting is no signed list")
    return data


def get_paused(request: Request) -> Response:
    """The list, for every device alike: it needs no key."""
    return Response(read_list(parts_of(request).settings.paused_list), media_type=LIST_TYPE)
