"""Objects of a decoder service in Python: lists, jobs, results.

Each shows itself in a notebook. Standard library only; pandas for `to_frame`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from decoder.errors import DecodeError, RemoteError
from decoder.notebook import html_table, to_frame
from decoder_client.http import Kept, no_table

_LIVE = ("queued", "running", "cancelling")
_ROWS = {"decode": "detected", "density": "maps", "series": "rows", "compare": "rows",
         "discover": "found"}  # fmt: skip


@dataclass(frozen=True)
class CandidateList:
    """A list of candidates or weights at the service, in its latest version."""

    id: str
    name: str
    version: int
    entries: int
    owner: str
    kind: str = "candidates"

    @property
    def spec(self) -> dict[str, Any]:
        """The reference to this list and version that a job takes as `candidates` or `weights`."""
        return {"list": self.id, "version": self.version}

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        row = (self.name, self.version, self.entries, self.owner)
        titles = {"weights": "Weights", "flows": "Known flows", "areas": "Areas"}
        title = titles.get(self.kind, "Candidate list")
        return html_table(title, ("name", "version", "values", "owner"), [row])


class Job(Kept):
    """A job at the service, as of the latest request; `refresh` and `wait` update it."""

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
        """Wait until the job has ended. Raises RemoteError when it still runs after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.refresh().state in _LIVE:
            if time.monotonic() > deadline:
                raise RemoteError(f"job {self.id} is still {self.state} after {seconds:g} seconds")
            time.sleep(poll)
        return self

    def result(self) -> Result:
        """The result that the job made. Raises DecodeError with the reason if it made none."""
        if self.row["result_id"] is None:
            raise DecodeError(f"job {self.id} is {self.state}: {self.row['reason']}")
        return Result(self.service, self.service.ask("GET", f"/v1/results/{self.row['result_id']}"))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        columns = ("id", "kind", "metric", "state", "stage", "reason")
        return html_table("Job", columns, [[self.row[name] for name in columns]])


@dataclass
class Result(Kept):
    """A decoding, map or series that the service stores."""

    route = "/v1/results"
    _found: list[dict[str, Any]] | None = field(default=None, repr=False)

    @property
    def summary(self) -> dict[str, Any]:
        """Numbers that sum up the result (reports, values found), with its warnings."""
        return dict(self.row["summary"])

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the main table: values found, cells of maps, or the first table of a kind
        with a decoder of its own."""
        if self._found is None:
            content = self.service.read("GET", f"{self.path}/data", {"format": "json"})
            try:
                self._found = _main_table(json.loads(content), _ROWS.get(self.row["kind"]))
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                raise no_table(f"result {self.id}", error) from None
        return self._found

    def to_frame(self) -> Any:
        """`rows` as a pandas.DataFrame. Raises OutputError where pandas is not installed."""
        return to_frame(self.rows(), self._columns())

    def data(self, form: str) -> bytes:
        """The main table as csv (exactly as stored), json, parquet or geojson."""
        query = {"format": form, "exact": "true"}
        return self.service.read("GET", f"{self.path}/data", query)

    def file(self, name: str) -> bytes:
        """Download one file of the result, byte for byte; `row["files"]` lists the names."""
        return self.service.read("GET", f"{self.path}/files/{name}", {"exact": "true"})

    def give_up(self) -> None:
        """Remove the result from your own: it no longer counts towards your limit, and is
        deleted once nobody holds it."""
        self.service.ask("DELETE", self.path)

    def _columns(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows() for name in row))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        days = f"{self.row['first_day']} to {self.row['last_day']}" if self.row["first_day"] else ""
        title = f"{self.row['kind']} of {self.row['metric']} {days}".strip()
        columns = [name for name in self._columns() if name not in ("forged_shift", "true_share")]
        rows = [[row.get(name) for name in columns] for row in self.rows()]
        return html_table(title, columns, rows, self.summary.get("warnings", ()))


def _main_table(content: Mapping[str, Any], name: str | None) -> list[dict[str, Any]]:
    """The table of that name; of none the first list of rows. Raises LookupError without one."""
    if name is not None:
        return list(content[name])
    for value in content.values():
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            return value
    raise LookupError("no list of rows")


def list_of(row: Mapping[str, Any]) -> CandidateList:
    """Make a CandidateList from the service's JSON."""
    names = ("id", "name", "version", "entries", "owner")
    known = {name: row[name] for name in names}
    return CandidateList(**known, kind=row.get("kind", "candidates"))
