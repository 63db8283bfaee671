"""Requests of the service to the collector, with the key of its settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from decoder.sources.collector_client import ask, ask_json, fetch_aggregate
from decoder_service.metrics.rules import checked
from rappor_core.aggregate import Aggregate

_COUNT = re.compile(r"^rappor_reports_(accepted|refused)_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class RemoteCollector:
    """A collector over HTTP. Every method raises RemoteError. `key`: of scope aggregate."""

    url: str
    key: str

    def metrics(self) -> list[dict[str, Any]]:
        """List every version of every metric, with the served days."""
        return checked(ask_json(self.url, "/v1/metrics", "metrics", key=self.key)["metrics"])

    def aggregate(self, metric: str, params_id: str, first: date, last: date) -> Aggregate:
        """The counts of a window of one version."""
        return fetch_aggregate(
            self.url, metric, params_id=params_id, first=first, last=last, key=self.key
        )

    def counters(self) -> tuple[float, float]:
        """Numbers of reports accepted and refused since the collector started."""
        text = ask(self.url, "/metrics", key=self.key).decode("utf-8", "replace")
        sums = {"accepted": 0.0, "refused": 0.0}
        for name, value in _COUNT.findall(text):
            sums[name] += float(value)
        return sums["accepted"], sums["refused"]
