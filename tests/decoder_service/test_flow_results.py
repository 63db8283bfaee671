"""Flows in the service: a job, its page, its files, and a series."""

import csv
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from decoder_service.lists.rules import content_of
from decoder_service.shell.models import ListKind
from rappor_core.metrics.flow import Flow
from simulations.flows import city_matrix, city_metric, draw_flows
from tests.decoder_service.in_process import done
from tests.decoder_service.release_support import MONDAY, POLICY, proposal, propose, settle
from tests.decoder_service.support import Running, running, store_list, upload
from tests.decoder_service.test_pages import INLINE, signed_in

METRIC = city_metric(4.0, 50_000, rows=2, columns=2)


def week(number: int) -> bytes:
    first = MONDAY + timedelta(days=7 * number)
    matrix = city_matrix(METRIC.details, np.random.default_rng(1))
    rng = np.random.default_rng(number)
    drawn = draw_flows(METRIC, matrix, 50_000, rng, (first, first + timedelta(days=6)))
    return drawn.to_json().encode()


def census_of(flow: Flow) -> str:
    rows = [f"{one},{other},{1 + (one == other)}" for one in flow.cells for other in flow.cells]
    return "\n".join(["origin,destination,count", *rows])


def stored_form(lines: list[str]) -> tuple[bytes, int]:
    text = "\n".join(["origin,destination,count", *lines])
    return content_of(text.encode(), ListKind.FLOWS, "csv", None)


def test_the_same_known_flows_are_the_same_content() -> None:
    made = stored_form(["a,b,1", "c,d,2.5", "a,b,3"])
    assert made == stored_form(["c,d,2.5", " a,b,4"])
    assert made == (b"origin,destination,count\na,b,4.0\nc,d,2.5\n", 2)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('d')}/d.sqlite", tick_seconds=0) as one:
        yield one


@pytest.mark.long
def test_flows_are_a_job_with_a_page(served: Running, tmp_path: Path) -> None:
    with served.client("ana") as ana:
        sha = upload(ana, week(0))
        census = store_list(ana, "census", census_of(METRIC.details), "flows")["id"]
        chosen = {"known": {"list": census}, "flows": {"min_km": 2, "top": 7}}
        spec = {"source": {"aggregates": [sha]}, **chosen}
        flow = done(served, ana, tmp_path, spec)
        data = ana.get(f"/v1/results/{flow}/data?format=json").json()
        assert data["min_km"] == 2
        assert all(row["km"] >= 2 for row in data["flows"])
        assert sum(not row["detected"] for row in data["flows"]) == 7
        manifest = ana.get(f"/v1/results/{flow}").json()["manifest"]
        assert manifest["spec"]["known"] == {"list": census, "version": 1}
        assert len(manifest["inputs"]["known"]) == 64
        rows = ana.get(f"/v1/results/{flow}/data?format=csv").text.splitlines()
        assert len(rows) == 1 + METRIC.details.num_sides**2
        with signed_in(served, "ana") as browser:
            page = browser.get(f"/results/{flow}").text
            assert not INLINE.search(page)
            assert f"<b>{data['num_detected']}</b>" in page
            assert page.count('id="maps"') == 1
            assert f'<a href="/lists/{census}">version 1</a>' in page
        refused = ana.post("/v1/releases", json=proposal("flows", flow))
        assert "does not publish the stratum 'between'" in refused.json()["detail"]
        rules = f'{POLICY}strata = ["between"]\n'
        release = propose(served, "ana", proposal("flows", flow, policy=rules))["id"]
        assert settle(served, "root", release).status_code == 200
        released = ana.get(f"/v1/releases/{release}/files/release.csv").text.splitlines()
        every = [*data["zones"], *csv.DictReader(rows)]  # data has those that are far enough
        result = {f"{row['origin']}>{row['destination']}"
                for row in every if row["detected"] in (True, "true")}  # fmt: skip
        seen = [row.split(",") for row in released[1:] if not row.endswith(",u")]
        assert {row[6].removeprefix("'") for row in seen} <= result
        assert len(seen) > 3
        summary = ana.get(f"/v1/results/{flow}").json()["summary"]
        assert len(json.dumps(summary)) < 10_000
