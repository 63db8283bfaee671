"""The metrics that the collector declares, with the results that exist for each."""

import json
import reprlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, TypeAdapter
from sqlalchemy import func, select

from decoder.candidates.lists import own_names
from decoder.errors import RemoteError
from decoder.sources.collector_client import ask_json, fetch_aggregate
from decoder_service.people.permissions import Act, Person, require, visible_results
from decoder_service.shell.database import ServiceDatabase
from decoder_service.shell.models import ResultRow
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.params import RapporParams
from rappor_core.text import visible

REFRESH_SECONDS = 30.0
NO_COLLECTOR = (
    "no collector is configured, so the list of metrics is unknown; an operator must set "
    "RAPPOR_DECODER_COLLECTOR to the address of a collector"
)
_DEFECT = "the request to the collector failed; the log has the reason"

_MAX_NAMED = 20  # the maximum number of metrics in a message
_YEARS = range(1970, 9000)  # valid years, so that a month can be added

Ask = Callable[[], list[dict[str, Any]]]  # the collector's GET /v1/metrics


def _check_day(text: str) -> str:
    """Return a date's text if it is canonical: 2026-11-01, not 20261101 or 2026-W45-7."""
    day = date.fromisoformat(text)
    if day.year not in _YEARS or text != day.isoformat():
        raise ValueError("not a day")
    return text


Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]+$")]
Day = Annotated[str, AfterValidator(_check_day)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Served(_Strict):
    first_day: Day
    last_day: Day


class _Waiting(_Strict):
    first_day: Day
    reports: int


class _Listed(_Strict):
    """A metric version, with the properties that pages show."""

    name: str
    params_id: Word
    state: Word
    accepted: int
    closed_through: Day | None
    served: _Served | None
    waiting: _Waiting | None
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MetricView:
    """A version of a metric."""

    name: str
    params_id: str
    listed: dict[str, Any]  # The collector's entry; empty if there is none
    results: int  # Number of results that the reader may see
    latest_day: str | None  # The last day of these results


class Metrics:
    """The collector's last list of metrics, so that a hanging collector does not block pages."""

    def __init__(self, database: ServiceDatabase, ask: Ask | None) -> None:
        self._database = database
        self._ask = ask
        self._metrics: list[dict[str, Any]] = []
        self._problem = "the collector has not responded yet; reload this page in a moment"
        self._answered = time.monotonic()

    def refresh(self) -> None:
        """Request the list from the collector, for later pages; called every `REFRESH_SECONDS`."""
        if self._ask is None:
            return
        problem = _DEFECT
        try:
            self._metrics, problem = checked(self._ask()), ""
        except RemoteError as error:
            problem = str(error)
        finally:
            self._problem, self._answered = problem, time.monotonic()

    def all(self, person: Person) -> tuple[list[MetricView], str]:
        """Return every version of every metric by name, and a problem with the collector, or "".

        The problem states why the collector's data may be missing or outdated. Raises RoleError."""
        require(person, Act.READ)
        listed, problem = self.latest()
        by_key = {(row["name"], row["params_id"]): row for row in listed}
        counted = self._counted(person)
        views = [
            MetricView(*key, by_key.get(key, {}), *counted.get(key, (0, None)))
            for key in dict.fromkeys([*by_key, *counted])
        ]
        return sorted(views, key=lambda view: view.name), problem

    def public(self) -> tuple[list[dict[str, Any]], str]:
        """Return the definitions of all current metrics for everyone, and why some may be missing.

        The second text is "" if there is no problem, and never contains the collector's address."""
        listed, problem = self.latest()
        why = "the collector does not respond: the list may be old or incomplete" if problem else ""
        current = [row["definition"] for row in listed if row["state"] == "current"]
        return current, why if self._ask else NO_COLLECTOR

    def _counted(self, person: Person) -> dict[tuple[str, str], tuple[int, str | None]]:
        """Return, by (name, params_id), the number of visible results and their last day."""
        columns = (ResultRow.metric, ResultRow.params_id)
        statement = (
            select(*columns, func.count(), func.max(ResultRow.last_day))
            .where(visible_results(person))
            .group_by(*columns)
        )
        with self._database.reading() as db:
            return {(r[0], r[1]): (int(r[2]), r[3]) for r in db.execute(statement)}

    def latest(self) -> tuple[list[dict[str, Any]], str]:
        """Return the collector's last list, and why it may be old or missing, or ""."""
        if self._ask is None:
            return [], NO_COLLECTOR
        seconds = time.monotonic() - self._answered
        if seconds > 2 * REFRESH_SECONDS:
            return self._metrics, (
                f"the collector has not responded for {seconds:.0f} seconds; its last list is "
                "shown; check its address, or reload this page"
            )
        return self._metrics, self._problem


def checked(listed: Any) -> list[dict[str, Any]]:
    """Validate and return a collector's response, a list of metrics. Raises RemoteError."""
    try:
        TypeAdapter(list[_Listed]).validate_python(listed)
        json.dumps(listed, ensure_ascii=False).encode()  # rejects lone surrogates
    except (ValueError, TypeError, RecursionError):
        text = visible(reprlib.repr(listed)[:60])
        raise RemoteError(f"the response is not a collector's: {text}; check its address") from None
    return list(listed)


def has_own_values(definition: Mapping[str, Any]) -> bool:
    """Return whether a metric's definition, possibly of another version, lists its values."""
    try:
        params = RapporParams.from_dict(definition["params"])
        return bool(own_names(params, definition))
    except (RapporError, AttributeError, KeyError, TypeError, ValueError):
        return False


def unknown_metric(name: str, others: list[str]) -> str:
    """Return a sentence that the collector has no such metric, with the names of its metrics."""
    named = ", ".join(ascii(other) for other in others[:_MAX_NAMED]) or "none yet"
    more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
    return (
        f"the collector has no metric {name!a}; it has {named}{more}; an operator declares it "
        "there, or delete this schedule"
    )


def days_held(version: Mapping[str, Any], last: date | None) -> str:
    """Return the end of a sentence on a metric's closed days, and when more days are served.

    `version` is the collector's entry; `last` is the last day of the awaited window, if any."""
    waiting, closed = version["waiting"], version["closed_through"]
    few = (
        f"; its days from {waiting['first_day']} on are closed and have too few reports "
        f"({waiting['reports']})"
        if waiting
        else ""
    )
    if closed and last is not None and closed >= last.isoformat() and not waiting:
        return f"; later days are closed up to {closed} and have no reports"
    until = f"it has closed days up to {closed}" if closed else "it has not closed any day"
    return f"{few}; {until}, and closes each once its time for reports is over (rappor close: now)"


@dataclass(frozen=True)
class RemoteCollector:
    """A collector over HTTP. Every method raises RemoteError."""

    url: str
    key: str  # A key of scope aggregate

    def metrics(self) -> list[dict[str, Any]]:
        """List every version of every metric, with the served days."""
        return checked(ask_json(self.url, "/v1/metrics", "metrics", key=self.key)["metrics"])

    def aggregate(self, metric: str, params_id: str, first: date, last: date) -> Aggregate:
        """Return the counts of a window of one version."""
        return fetch_aggregate(
            self.url, metric, params_id=params_id, first=first, last=last, key=self.key
        )
