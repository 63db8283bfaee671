"""HTTP requests to a decoder service, and the base class of the objects that it stores.

Standard library only. What a service sends is not believed: its answers have a largest size, and
what is shown of them has no characters that steer a terminal.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlencode, urlsplit

from decoder.errors import RemoteError
from decoder.sources.collector_client import NoRedirects, read_limited
from rappor_core.failures import failure_reason
from rappor_core.text import visible

KEY_VARIABLE = "RAPPOR_DECODER_KEY"
_SECONDS = 60.0
_MOST_BYTES = 1 << 30  # of an answer; all files of a result have half of it by default
_MOST_PROBLEM = 1 << 20  # bytes of a problem document
_MOST_DETAIL = 2000  # characters of its sentence
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class JsonObject(dict[str, Any]):
    """An object of an answer. Raises RemoteError for a member that is missing."""

    def __missing__(self, name: str) -> Any:
        raise RemoteError(f"the answer has no {name!r}: no decoder service of this version sent it")


@dataclass(frozen=True)
class ServiceConnection:
    """The address of a decoder service and the key to use there.

    url: https://, or http:// to this machine.  key: that of RAPPOR_DECODER_KEY if "".
    """

    url: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            parts.port  # noqa: B018 (a port above 65535 is another one to a socket)
        except ValueError as error:
            raise RemoteError(f"service {self.url!r}: {failure_reason(error)}") from None
        if parts.scheme not in ("http", "https") or not self.url.isprintable():
            raise RemoteError(f"service {self.url!r} is not an http:// or https:// URL")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise RemoteError(f"service {self.url!r}: a key is sent over https only")

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | dict[str, Any] | None = None,
    ) -> Any:
        """Send a request to any route and return the JSON object of its answer. Raises
        RemoteError, also if the answer is no JSON object."""
        try:
            answer = json.loads(self.read(method, path, query, body), object_hook=JsonObject)
        except (ValueError, RecursionError) as error:
            raise self._stranger() from error
        if not isinstance(answer, dict):
            raise self._stranger()
        return answer

    def ask_rows(
        self, path: str, member: str, query: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The objects that a route lists. Raises RemoteError."""
        rows = self.ask("GET", path, query)[member]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._stranger()
        return rows

    def read(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | dict[str, Any] | None = None,
    ) -> bytes:
        """Send a request to any route and return the bytes of its answer. Raises RemoteError,
        also for more than 1 GiB."""
        url = self.url.rstrip("/") + quote(path) + (f"?{urlencode(query)}" if query else "")
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        key = self.key or os.environ.get(KEY_VARIABLE, "")
        headers = {"Authorization": f"Bearer {key}"}
        if isinstance(body, dict):
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, content, headers, method=method)  # noqa: S310
        opener = urllib.request.build_opener(NoRedirects())
        try:
            with opener.open(request, timeout=_SECONDS) as answer:
                return read_limited(answer, self.url, _MOST_BYTES)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = failure_reason(error)
            raise RemoteError(f"no decoder service answers at {self.url}: {reason}") from None

    def _stranger(self) -> RemoteError:
        return RemoteError(
            f"what answers at {self.url} is not a decoder service; check the address"
        )


@dataclass
class Kept:
    """An object that a service stores, as of the latest request; `refresh` asks again."""

    route: ClassVar[str]  # of all of its kind

    service: ServiceConnection = field(repr=False)
    row: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """Identifier of the object at the service."""
        return str(self.row["id"])

    @property
    def path(self) -> str:
        """Path of the object's route at the service."""
        return f"{self.route}/{self.id}"

    def refresh(self) -> Self:
        """Ask the service for the object's present state; return the object itself."""
        self.row = self.service.ask("GET", self.path)
        return self


def _refusal(error: urllib.error.HTTPError) -> RemoteError:
    """The detail of a problem document."""
    if 300 <= error.code < 400:
        text = "it sends on to another address, which is not followed; give that one"
        return RemoteError(f"the decoder service answered {error.code}: {text}")
    with error:
        try:
            problem = json.loads(error.read(_MOST_PROBLEM))
            detail = str(problem["detail"])
        except (ValueError, LookupError, TypeError, RecursionError, OSError, HTTPException):
            problem, detail = {}, str(error.reason)
    detail = visible(detail[:_MOST_DETAIL])
    return RemoteError(f"the decoder service answered {error.code}: {detail}", problem)


def no_table(what: str, error: Exception) -> RemoteError:
    """The error for a file that should hold a table and does not. error: what reading it raised."""
    return RemoteError(f"{what} has no table that can be read: {failure_reason(error)}")
