"""Flows in the service: a job, its page, its files, and a series."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from simulations.flows.city import city_matrix, city_metric, draw_flows
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.release_support import MONDAY, POLICY, proposal, propose, settle
from tests.decoder_service.support import running, submit, upload
from tests.decoder_service.test_pages import INLINE, signed_in

METRIC = city_metric(4.0, 50_000, rows=3, columns=3)


def week(number: int) -> bytes:
    first = MONDAY + timedelta(days=7 * number)
    matrix = city_matrix(METRIC.details, np.random.default_rng(1))
    rng = np.random.default_rng(number)
    drawn = draw_flows(METRIC, matrix, 50_000, rng, (first, first + timedelta(days=6)))
    return drawn.to_json().encode()


@pytest.mark.slow
def test_flows_are_a_job_of_the_service_with_a_page(tmp_path: Path) -> None:
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
    ):
        shas = [upload(ana, week(number)) for number in (0, 1)]
        one = submit(ana, {"kind": "flow", "source": {"aggregates": shas[:1]}})
        both = submit(ana, {"kind": "series", "source": {"aggregates": shas}, "each": "week"})
        assert do_jobs(served.service, tmp_path) == 2
        ended = [ana.get(f"/v1/jobs/{job}").json() for job in (one, both)]
        assert {job["state"] for job in ended} == {"done"}, ended
        flow, series = (job["result_id"] for job in ended)
        data = ana.get(f"/v1/results/{flow}/data?format=json").json()
        rows = ana.get(f"/v1/results/{flow}/data?format=csv").text.splitlines()
        assert len(rows) == 1 + METRIC.details.num_sides**2
        assert ana.get(f"/v1/results/{series}/data?format=json").json()["changes"]
        with signed_in(served, "ana") as browser:
            page = browser.get(f"/results/{flow}").text
            assert not INLINE.search(page)
            assert f"<b>{data['num_told']}</b>" in page
            assert page.count('class="plot flowmap') == 2
            assert "rappor decode --aggregate" in page
            found = browser.get(f"/results/{flow}?q=no such cell").text
            assert "No cell holds" in found
            assert "told from zero" in browser.get("/results").text
            assert "own cell" in browser.get(f"/results/{series}").text
            assert "flow" in browser.get("/jobs/new?kind=flow").text
        refused = ana.post("/v1/releases", json=proposal("flows", flow))
        assert "does not publish the stratum 'between'" in refused.json()["detail"]
        rules = f'{POLICY}strata = ["between"]\n'
        release = propose(served, "ana", proposal("flows", flow, policy=rules))["id"]
        assert settle(served, "root", release).status_code == 200
        released = ana.get(f"/v1/releases/{release}/files/release.csv").text.splitlines()
        told = {f"{row['origin']}>{row['destination']}"
                for name in ("flows", "zones") for row in data[name] if row["told"]}  # fmt: skip
        seen = [row.split(",") for row in released[1:] if not row.endswith(",u")]
        assert {row[6].removeprefix("'") for row in seen} <= told
        assert len(seen) > 3
        summary = ana.get(f"/v1/results/{flow}").json()["summary"]
        assert len(json.dumps(summary)) < 10_000
