"""`Service`: a decoder service over HTTP."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from decoder_client.http import KEY_VARIABLE, ServiceConnection
from decoder_client.objects import CandidateList, Job, Result, list_of
from decoder_client.releases import ServiceRelease
from rappor_core.aggregate import Aggregate

__all__ = ["KEY_VARIABLE", "CandidateList", "Job", "Result", "Service", "ServiceRelease"]


class Service(ServiceConnection):
    """A decoder service over HTTP. Every method raises RemoteError, with what the service said.

    url: https://, or http:// to this machine.  key: that of RAPPOR_DECODER_KEY if "".
    """

    def upload_list(self, name: str, values: Iterable[str]) -> CandidateList:
        """Store a list under a new name."""
        content = "".join(f"{value}\n" for value in values).encode()
        return list_of(self.ask("POST", "/v1/lists", {"name": name}, content))

    def upload_weights(
        self, name: str, weights: Mapping[str, float], others: float | None = None
    ) -> CandidateList:
        """Store weights of candidates under a new name, for `decode(weights=...)`.

        others: the weight of every value that is not in `weights`; None: each must have one.
        """
        text = io.StringIO()
        rows = [*weights.items(), *([] if others is None else [("", others)])]
        csv.writer(text, lineterminator="\n").writerows(rows)
        query = {"name": name, "kind": "weights"}
        return list_of(self.ask("POST", "/v1/lists", query, text.getvalue().encode()))

    def upload_aggregate(self, aggregate: Aggregate) -> str:
        """Store counts; their digest, for `source = {"aggregates": [digest]}`."""
        content = aggregate.to_json().encode()
        return str(self.ask("POST", "/v1/aggregates", body=content)["sha256"])

    def usage(self) -> dict[str, dict[str, int]]:
        """Your stored bytes and jobs, and the limits of your role."""
        return dict(self.ask("GET", "/v1/usage"))

    def lists(self) -> list[CandidateList]:
        """Your own lists and those shared with you."""
        return [list_of(row) for row in self.ask_rows("/v1/lists", "lists")]

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

        candidates: None for the metric's own values.  first, last: closed days, all that are
        served by default.  weights: of `upload_weights`, decided before the counts were seen.
        options: as of the job, such as alpha = 0.01.
        """
        window = {"metric": metric}
        window |= {"first": first.isoformat()} if first else {}
        window |= {"last": last.isoformat()} if last else {}
        spec: dict[str, Any] = {"kind": "decode", "source": {"collector": window}}
        spec["options"] = options
        if candidates is not None:
            spec["candidates"] = candidates.spec
        if weights is not None:
            spec["weights"] = weights.spec
        return self.submit(spec)

    def submit(self, spec: Mapping[str, Any]) -> Job:
        """Queue a job of any kind, given its specification (docs/service.md)."""
        return Job(self, self.ask("POST", "/v1/jobs", body=dict(spec)))

    def jobs(self, limit: int = 100) -> list[Job]:
        """Your jobs, newest first."""
        query = {"limit": str(limit)}
        return [Job(self, row) for row in self.ask_rows("/v1/jobs", "jobs", query)]

    def job(self, job_id: str) -> Job:
        """A job by its id."""
        return Job(self, self.ask("GET", f"/v1/jobs/{job_id}"))

    def results(self, metric: str | None = None, limit: int = 100) -> list[Result]:
        """Results that you may see, newest first."""
        query = {"limit": str(limit)} | ({} if metric is None else {"metric": metric})
        found = self.ask_rows("/v1/results", "results", query)
        return [Result(self, row) for row in found]

    def result(self, result_id: str) -> Result:
        """A result by its id."""
        return Result(self, self.ask("GET", f"/v1/results/{result_id}"))

    def releases(self, state: str | None = None, limit: int = 100) -> list[ServiceRelease]:
        """Releases that you may see, newest first.

        state: proposed, approved, rejected or withdrawn; all of them by default.
        """
        query = {"limit": str(limit)} | ({} if state is None else {"state": state})
        found = self.ask_rows("/v1/releases", "releases", query)
        return [ServiceRelease(self, row) for row in found]

    def release(self, release_id: str) -> ServiceRelease:
        """A release by its id."""
        return ServiceRelease(self, self.ask("GET", f"/v1/releases/{release_id}"))

    def propose_release(
        self, name: str, policy: str, results: Iterable[Result], *, note: str = ""
    ) -> ServiceRelease:
        """Build a release from results of yours, for another person to approve.

        policy: text of a release.toml.  note: for who approves it.
        """
        body = {"name": name, "policy": policy, "note": note}
        sources = [{"result": one.id} for one in results]
        return ServiceRelease(
            self, self.ask("POST", "/v1/releases", body=body | {"sources": sources})
        )
