"""The metrics: what the collector declares, and which results there are."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

from sqlalchemy import func, select

from decoder.errors import RemoteError
from decoder.service.operations.permissions import Act, Person, require, visible_results
from decoder.service.store.engine import Database
from decoder.service.store.models import results

_KEEP_SECONDS = 30.0

_ROW: dict[str, type | UnionType] = {  # of a version of a metric, as pages show it
    "name": str,
    "params_id": str,
    "state": str,
    "accepted": int,
    "closed_through": str | None,
    "served": dict | None,
    "waiting": dict | None,
    "definition": dict,
}
_SERVED = {"first_day", "last_day"}
_WAITING = {"first_day", "reports"}

Ask = Callable[[], list[dict[str, Any]]]  # the collector's GET /v1/metrics


@dataclass(frozen=True, slots=True)
class MetricView:
    """A version of a metric. `listed`: as the collector lists it, empty where it does not.

    results: how many of them one may see.  latest: the newest's id.
    """

    name: str
    params_id: str
    listed: dict[str, Any]
    results: int
    latest_day: str | None


@dataclass(frozen=True, slots=True)
class MetricViews:
    """All of them; `problem`: why the collector's part is missing or old, or ""."""

    metrics: list[MetricView]
    problem: str


@dataclass(slots=True)
class _Memory:
    """What the collector last said, and when."""

    listed: list[dict[str, Any]] = field(default_factory=list)
    asked: float = float("-inf")
    problem: str = ""


class Metrics:
    """Metrics of a collector, asked at most twice a minute."""

    def __init__(self, database: Database, ask: Ask | None) -> None:
        self._database = database
        self._ask = ask
        self._memory = _Memory()
        self._lock = threading.Lock()

    def all(self, person: Person) -> MetricViews:
        """Every version of every metric, by name. Raises RoleError."""
        require(person, Act.READ)
        listed, problem = self._listed()
        known = {(row["name"], row["params_id"]): row for row in listed}
        counted = self._counted(person)
        views = [
            MetricView(*key, known.get(key, {}), *counted.get(key, (0, None)))
            for key in dict.fromkeys([*known, *counted])
        ]
        return MetricViews(sorted(views, key=lambda view: view.name), problem)

    def public(self) -> tuple[list[dict[str, Any]], str]:
        """The definitions that reports are taken of now, for everyone; why there may be fewer."""
        listed, problem = self._listed()
        current = [row["definition"] for row in listed if row.get("state") == "current"]
        return [one for one in current if isinstance(one, dict)], problem

    def _counted(self, person: Person) -> dict[tuple[str, str], tuple[int, str | None]]:
        """By name and params_id: how many results one may see, and the last day of them."""
        columns = (results.c.metric, results.c.params_id)
        statement = (
            select(*columns, func.count(), func.max(results.c.last_day))
            .where(visible_results(person))
            .group_by(*columns)
        )
        with self._database.read() as connection:
            return {(r[0], r[1]): (int(r[2]), r[3]) for r in connection.execute(statement)}

    def _listed(self) -> tuple[list[dict[str, Any]], str]:
        if self._ask is None:
            return [], ""
        with self._lock:
            memory = self._memory
            if time.monotonic() - memory.asked > _KEEP_SECONDS:
                try:
                    memory.listed, memory.problem = checked(self._ask()), ""
                except RemoteError as error:
                    memory.problem = str(error)
                memory.asked = time.monotonic()
            return memory.listed, memory.problem


def checked(listed: Any) -> list[dict[str, Any]]:
    """What a collector lists, if it is such a list. Raises RemoteError."""
    try:
        if not all(isinstance(row[name], kind) for row in listed for name, kind in _ROW.items()):
            raise TypeError
        if not all(row["waiting"].keys() >= _WAITING for row in listed if row["waiting"]):
            raise TypeError
        if not all(row["served"].keys() >= _SERVED for row in listed if row["served"]):
            raise TypeError
        json.dumps(listed, ensure_ascii=False).encode()  # no lone surrogates, which no page holds
        return list(listed)
    except (KeyError, TypeError, UnicodeEncodeError):
        shown = json.dumps(listed, default=str)[:60]
        raise RemoteError(f"what answers is not a collector: {shown}") from None
