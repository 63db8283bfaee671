"""The decoder service from Python: `Service`, its jobs, results and lists.

    service = Service("https://decode.example", key)
    job = service.decode("homepage", words, first=date(2026, 11, 2), last=date(2026, 11, 8))
    result = job.wait().result()
    result.to_frame()

Standard library only; pandas for `to_frame`.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from decoder.errors import DecodeError, RemoteError
from decoder.notebook import html_table, to_frame
from decoder.sources.collector_client import NoRedirects
from rappor_core.aggregate import Aggregate
from rappor_core.failures import failure_reason

KEY_VARIABLE = "RAPPOR_DECODER_KEY"
_LIVE = ("queued", "running", "cancelling")
_SECONDS = 60.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ROWS = {"decode": "detected", "density": "maps", "number": "curve", "pair": "cells"}
_ROWS |= {"series": "rows", "compare": "rows", "discover": "found"}


@dataclass(frozen=True)
class CandidateList:
    """A candidate list of the service, by its latest version."""

    id: str
    name: str
    version: int
    entries: int
    owner: str

    @property
    def spec(self) -> dict[str, Any]:
        """As a job's `candidates`."""
        return {"list": self.id, "version": self.version}

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        row = (self.name, self.version, self.entries, self.owner)
        return html_table("Candidate list", ("name", "version", "values", "owner"), [row])


@dataclass(frozen=True)
class Service:
    """A decoder service over HTTP. Every method raises RemoteError, with what the service said.

    url: https://, or http:// to this machine.  key: that of RAPPOR_DECODER_KEY if "".
    """

    url: str
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not self.url.isprintable():
            raise RemoteError(f"service {self.url!r} is not an http:// or https:// URL")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise RemoteError(f"service {self.url!r}: a key is sent over https only")

    def upload_list(self, name: str, values: Iterable[str]) -> CandidateList:
        """Store a list under a new name."""
        content = "".join(f"{value}\n" for value in values).encode()
        return _list(self.ask("POST", "/v1/lists", {"name": name}, content))

    def upload_aggregate(self, aggregate: Aggregate) -> str:
        """Store counts; their digest, for `source = {"aggregates": [digest]}`."""
        content = aggregate.to_json().encode()
        return str(self.ask("POST", "/v1/aggregates", body=content)["sha256"])

    def usage(self) -> dict[str, dict[str, int]]:
        """What you have stored, and how much your role allows."""
        return dict(self.ask("GET", "/v1/usage"))

    def lists(self) -> list[CandidateList]:
        """Your lists and shared ones."""
        return [_list(row) for row in self.ask("GET", "/v1/lists")["lists"]]

    def decode(
        self,
        metric: str,
        candidates: CandidateList | None = None,
        *,
        first: date | None = None,
        last: date | None = None,
        **options: Any,
    ) -> Job:
        """Queue a decoding of a collector's metric.

        candidates: None for the metric's own values.  first, last: closed days, all that are
        served by default.  options: as of the job, such as alpha = 0.01.
        """
        window = {"metric": metric}
        window |= {"first": first.isoformat()} if first else {}
        window |= {"last": last.isoformat()} if last else {}
        spec: dict[str, Any] = {"kind": "decode", "source": {"collector": window}}
        spec["options"] = options
        if candidates is not None:
            spec["candidates"] = candidates.spec
        return self.submit(spec)

    def submit(self, spec: Mapping[str, Any]) -> Job:
        """Queue any job, by its specification (docs/service.md)."""
        return Job(self, self.ask("POST", "/v1/jobs", body=dict(spec)))

    def jobs(self, limit: int = 100) -> list[Job]:
        """Your jobs, newest first."""
        query = {"limit": str(limit)}
        return [Job(self, row) for row in self.ask("GET", "/v1/jobs", query)["jobs"]]

    def job(self, job_id: str) -> Job:
        """A job by its id."""
        return Job(self, self.ask("GET", f"/v1/jobs/{job_id}"))

    def results(self, metric: str | None = None, limit: int = 100) -> list[Result]:
        """Results that you may see, newest first."""
        query = {"limit": str(limit)} | ({} if metric is None else {"metric": metric})
        found = self.ask("GET", "/v1/results", query)["results"]
        return [Result(self, row) for row in found]

    def result(self, result_id: str) -> Result:
        """A result by its id."""
        return Result(self, self.ask("GET", f"/v1/results/{result_id}"))

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | dict[str, Any] | None = None,
    ) -> Any:
        """Any route, by its JSON. Raises RemoteError."""
        try:
            return json.loads(self.read(method, path, query, body))
        except ValueError as error:
            raise RemoteError(f"what answers at {self.url} is not a decoder service") from error

    def read(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: bytes | dict[str, Any] | None = None,
    ) -> bytes:
        """Any route, by its bytes. Raises RemoteError."""
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
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = failure_reason(error)
            raise RemoteError(f"no decoder service answers at {self.url}: {reason}") from None


@dataclass
class Job:
    """A job as it was when it was last asked for: `refresh`, `wait`."""

    service: Service = field(repr=False)
    row: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.row["id"])

    @property
    def state(self) -> str:
        """queued, running, cancelling, done, failed, cancelled or abandoned."""
        return str(self.row["state"])

    def refresh(self) -> Job:
        """Ask for it again."""
        self.row = self.service.ask("GET", f"/v1/jobs/{self.id}")
        return self

    def cancel(self) -> Job:
        """Ask for its end."""
        self.row = self.service.ask("POST", f"/v1/jobs/{self.id}/cancel")
        return self

    def wait(self, seconds: float = 3600.0, poll: float = 0.5) -> Job:
        """Wait until it is over. Raises RemoteError when it still is not after so many seconds."""
        deadline = time.monotonic() + seconds
        while self.refresh().state in _LIVE:
            if time.monotonic() > deadline:
                raise RemoteError(f"job {self.id} is still {self.state} after {seconds:g} seconds")
            time.sleep(poll)
        return self

    def result(self) -> Result:
        """Its result. Raises DecodeError with the reason for a job that has none."""
        if self.row["result_id"] is None:
            raise DecodeError(f"job {self.id} is {self.state}: {self.row['reason']}")
        return self.service.result(self.row["result_id"])

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        columns = ("id", "kind", "metric", "state", "stage", "reason")
        return html_table("Job", columns, [[self.row[name] for name in columns]])


@dataclass
class Result:
    """A stored result."""

    service: Service = field(repr=False)
    row: dict[str, Any] = field(repr=False)
    _found: list[dict[str, Any]] | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Its id."""
        return str(self.row["id"])

    @property
    def summary(self) -> dict[str, Any]:
        """In numbers, with its warnings."""
        return dict(self.row["summary"])

    def rows(self) -> list[dict[str, Any]]:
        """Its main table: of a decoding what was found, of a density its maps,
        of a number its curve, of a pair its cells."""
        if self._found is None:
            content = self.service.read("GET", f"/v1/results/{self.id}/data", {"format": "json"})
            self._found = list(json.loads(content)[_ROWS[self.row["kind"]]])
        return self._found

    def to_frame(self) -> Any:
        """`rows` as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
        return to_frame(self.rows(), self._columns())

    def data(self, form: str) -> bytes:
        """The main table as csv (exactly as stored), json, parquet or geojson."""
        query = {"format": form, "exact": "true"}
        return self.service.read("GET", f"/v1/results/{self.id}/data", query)

    def file(self, name: str) -> bytes:
        """A file, exactly as stored; `row["files"]` names them."""
        return self.service.read("GET", f"/v1/results/{self.id}/files/{name}", {"exact": "true"})

    def give_up(self) -> None:
        """Give it up: it counts for you no more, and is deleted once nobody holds it."""
        self.service.ask("DELETE", f"/v1/results/{self.id}")

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows() for name in row))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        days = f"{self.row['first_day']} to {self.row['last_day']}" if self.row["first_day"] else ""
        title = f"{self.row['kind']} of {self.row['metric']} {days}".strip()
        columns = [name for name in self._columns() if name not in ("forged_shift", "true_share")]
        rows = [[row.get(name) for name in columns] for row in self.rows()]
        return html_table(title, columns, rows, self.summary.get("warnings", ()))


def _list(row: Mapping[str, Any]) -> CandidateList:
    names = ("id", "name", "version", "entries", "owner")
    return CandidateList(**{name: row[name] for name in names})


def _refusal(error: urllib.error.HTTPError) -> RemoteError:
    """The detail of a problem document."""
    with error:
        try:
            problem = json.loads(error.read())
            detail = str(problem["detail"])
        except (ValueError, KeyError, TypeError):
            problem, detail = {}, str(error.reason)
    return RemoteError(f"the decoder service answered {error.code}: {detail}", problem)
