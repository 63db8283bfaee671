"""A Python client for a decoder service: jobs, results and lists over HTTP.

    service = Service("https://decode.example", key)
    job = service.decode("homepage", words, first=date(2026, 11, 2), last=date(2026, 11, 8))
    result = job.wait().result()
    result.to_frame()

Needs httpx; `to_frame` needs pandas. The responses of a service are not trusted: their size is
limited, and their strings are shown without control characters."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar, Self, TypeAlias
from urllib.parse import quote, urlsplit

import httpx

from decoder.errors import DecodeError, RemoteError
from decoder.files import to_frame
from rappor_core.aggregate import Aggregate
from rappor_core.text import visible

KEY_VARIABLE = "RAPPOR_DECODER_KEY"
TIMEOUT_SECONDS = 60.0
MAX_ANSWER_BYTES = 1 << 30  # twice the default limit for all files of a result
MAX_DETAIL_CHARACTERS = 2000
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LIVE = ("queued", "running", "cancelling")
_MAIN_TABLES = ("detected", "maps", "rows", "found")  # main tables of kinds with several
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
Query: TypeAlias = Mapping[str, str | None] | None
Body: TypeAlias = bytes | dict[str, Any] | None


class _Object(dict[str, Any]):
    """A JSON object in a response; a missing member raises RemoteError."""

    def __missing__(self, name: str) -> Any:
        raise RemoteError(f"the answer has no {name!r}: no decoder service of this version sent it")


@dataclass(frozen=True)
class Service:
    """A decoder service over HTTP. Every method raises RemoteError with the service's reason.

    Attributes:
        url: An https:// URL, or http:// to this machine.
        key: A key of the service; "" for the variable RAPPOR_DECODER_KEY.
    """

    url: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            address = httpx.URL(self.url)
            urlsplit(self.url).port  # noqa: B018 (httpx accepts 65536 + n, which connects to n)
        except (httpx.InvalidURL, ValueError) as error:
            raise RemoteError(f"service {self.url!r}: {visible(str(error))}") from None
        if address.scheme not in ("http", "https"):
            raise RemoteError(f"service {self.url!r} is not an http:// or https:// URL")
        if address.scheme == "http" and address.host not in _LOOPBACK:
            raise RemoteError(f"service {self.url!r}: a key is sent over https only")

    def upload_list(
        self, name: str, lines: Iterable[str], kind: str = "candidates"
    ) -> CandidateList:
        """Store a list under a new name.

        Args:
            name: The name of the list.
            lines: The values; for weights, `value,weight` as CSV, where an empty value means all
                others.
            kind: One of candidates, weights, flows or areas.
        """
        content = "".join(f"{line}\n" for line in lines).encode()
        row = self.ask("POST", "/v1/lists", {"name": name, "kind": kind}, content)
        return CandidateList(self, row)

    def upload_aggregate(self, aggregate: Aggregate) -> str:
        """Store counts; return their digest, for `source = {"aggregates": [digest]}`."""
        return str(self.ask("POST", "/v1/aggregates", body=aggregate.to_json().encode())["sha256"])

    def usage(self) -> dict[str, dict[str, int]]:
        """Return your stored bytes and jobs, and the limits of your role."""
        return dict(self.ask("GET", "/v1/usage"))

    def lists(self) -> list[CandidateList]:
        """Return your own lists and those shared with you."""
        return [CandidateList(self, row) for row in self._rows("lists")]

    def decode(
        self,
        metric: str,
        candidates: CandidateList | None = None,
        *,
        first: date | None = None,
        last: date | None = None,
        weights: CandidateList | None = None,
        **options: Any,
    ) -> Job:
        """Queue a decoding of a collector's metric.

        Args:
            metric: The name of the metric.
            candidates: The list; None for the metric's own values.
            first: The first closed day; None for the first served day.
            last: The last closed day; None for the last served day.
            weights: A list of kind weights.
            **options: Options of the job, such as alpha=0.01.
        """
        window = {"metric": metric, "first": first and str(first), "last": last and str(last)}
        spec = {"operation": "decode", "source": {"collector": window}, "options": options}
        if candidates is not None:
            spec["candidates"] = candidates.spec
        return self.submit(spec | {"weights": weights and weights.spec})

    def submit(self, spec: Mapping[str, Any]) -> Job:
        """Queue a job of any kind, given its specification (docs/service.md)."""
        return Job(self, self.ask("POST", "/v1/jobs", body=dict(spec)))

    def jobs(self, limit: int = 100) -> list[Job]:
        """Return your jobs, newest first."""
        return [Job(self, row) for row in self._rows("jobs", limit=str(limit))]

    def job(self, job_id: str) -> Job:
        """Return a job by its id."""
        return Job(self, self.ask("GET", f"/v1/jobs/{job_id}"))

    def results(self, metric: str | None = None, limit: int = 100) -> list[Result]:
        """Return the results that you may see, newest first."""
        rows = self._rows("results", limit=str(limit), metric=metric)
        return [Result(self, row) for row in rows]

    def result(self, result_id: str) -> Result:
        """Return a result by its id."""
        return Result(self, self.ask("GET", f"/v1/results/{result_id}"))

    def ask(self, method: str, path: str, query: Query = None, body: Body = None) -> Any:
        """Send a request to any route and return the JSON object of its response."""
        try:
            answer = json.loads(self.read(method, path, query, body), object_hook=_Object)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._not_a_service()
        return answer

    def read(self, method: str, path: str, query: Query = None, body: Body = None) -> bytes:
        """Send a request to any route and return the bytes of its response, at most 1 GiB."""
        key = self.key or os.environ.get(KEY_VARIABLE, "")
        content: dict[str, Any] = {"json": body} if isinstance(body, dict) else {"content": body}
        params = {name: value for name, value in (query or {}).items() if value is not None}
        content |= {"params": params, "headers": {"Authorization": f"Bearer {key}"}}
        url, read = self.url.rstrip("/") + quote(path), bytearray()
        # By default, httpx trusts its own list of authorities; this context trusts the system's.
        client = httpx.Client(verify=ssl.create_default_context(), timeout=TIMEOUT_SECONDS)
        try:
            with client, client.stream(method, url, **content) as answer:
                for piece in answer.iter_bytes():
                    read += piece
                    if len(read) > MAX_ANSWER_BYTES:
                        raise RemoteError(f"{self.url} sends more than {MAX_ANSWER_BYTES:,} bytes")
        except (httpx.HTTPError, ValueError, OSError) as error:
            reason = visible(str(error)) or type(error).__name__
            raise RemoteError(f"no decoder service answers at {self.url}: {reason}") from None
        if not answer.is_success:
            raise _refusal(answer, read)
        return bytes(read)

    def _rows(self, name: str, **query: str | None) -> list[dict[str, Any]]:
        rows = self.ask("GET", f"/v1/{name}", query)[name]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise self._not_a_service()
        return rows

    def _not_a_service(self) -> RemoteError:
        return RemoteError(
            f"what answers at {self.url} is not a decoder service; check the address"
        )


def _refusal(answer: httpx.Response, content: bytearray) -> RemoteError:
    """Return an error with the detail of a problem document."""
    if answer.is_redirect:
        detail = "it redirects to another address, which is not followed; use that one"
        return RemoteError(f"the decoder service answered {answer.status_code}: {detail}")
    try:
        problem = json.loads(content)
        detail = str(problem["detail"])
    except _UNREADABLE:
        problem, detail = {}, answer.reason_phrase
    detail = visible(detail[:MAX_DETAIL_CHARACTERS])
    return RemoteError(f"the decoder service answered {answer.status_code}: {detail}", problem)


@dataclass
class _Stored:
    """An object stored by a service, as of the latest request; `refresh` updates it."""

    route: ClassVar[str]  # the route for all objects of this type

    service: Service = field(repr=False)
    row: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def path(self) -> str:
        return f"{self.route}/{self.id}"

    def refresh(self) -> Self:
        self.row = self.service.ask("GET", self.path)
        return self


class CandidateList(_Stored):
    """A list of candidates or weights at the service, in its latest version."""

    route = "/v1/lists"

    @property
    def spec(self) -> dict[str, Any]:
        """The reference for a job's `candidates` or `weights`."""
        return {"list": self.id, "version": self.row["version"]}


class Job(_Stored):
    """A job at the service; `refresh` and `wait` update it."""

    route = "/v1/jobs"

    @property
    def state(self) -> str:
        """The job's state: queued, running, cancelling, done, failed, cancelled or abandoned."""
        return str(self.row["state"])

    def cancel(self) -> Job:
        """Ask the service to cancel the job."""
        self.row = self.service.ask("POST", f"{self.path}/cancel")
        return self

    def wait(self, seconds: float = 3600.0, poll: float = 0.5) -> Job:
        """Wait until the job has ended. Raises RemoteError if it still runs after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.refresh().state in _LIVE:
            if time.monotonic() > deadline:
                raise RemoteError(f"job {self.id} is still {self.state} after {seconds:g} seconds")
            time.sleep(poll)
        return self

    def result(self) -> Result:
        """Return the job's result. Raises DecodeError with the reason if it has none."""
        if self.row["result_id"] is None:
            raise DecodeError(f"job {self.id} is {self.state}: {self.row['reason']}")
        return self.service.result(self.row["result_id"])


class Result(_Stored):
    """A decoding, map or series that the service stores."""

    route = "/v1/results"

    @property
    def summary(self) -> dict[str, Any]:
        """The key numbers of the result (reports, values detected), with its warnings."""
        return dict(self.row["summary"])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the main table, such as detected values or map cells."""
        content = self.service.read("GET", f"{self.path}/data", {"format": "json"})
        try:
            return _main_table(json.loads(content))
        except _UNREADABLE as error:
            why = f"has no table that can be read: {visible(str(error))}"
            raise RemoteError(f"result {self.id} {why}") from None

    def to_frame(self) -> Any:
        """Return `rows` as a pandas.DataFrame. Raises OutputError if pandas is not installed."""
        rows = self.rows()
        return to_frame(rows, list(dict.fromkeys(name for row in rows for name in row)))

    def data(self, form: str) -> bytes:
        """Return the main table as csv (exactly as stored), json, parquet or geojson."""
        query = {"format": form, "exact": "true"}
        return self.service.read("GET", f"{self.path}/data", query)

    def file(self, name: str) -> bytes:
        """Download one file of the result, byte for byte; `row["files"]` lists the names."""
        return self.service.read("GET", f"{self.path}/files/{name}", {"exact": "true"})

    def give_up(self) -> None:
        """Remove the result from your results, so that it no longer counts toward your limit.

        The result is deleted once no one holds it."""
        self.service.ask("DELETE", self.path)


def _main_table(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the main table by name, or else the first list of rows. Raises LookupError if none."""
    for name in _MAIN_TABLES:
        if name in content:
            return list(content[name])
    for value in content.values():
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            return value
    raise LookupError("not a list of rows")
