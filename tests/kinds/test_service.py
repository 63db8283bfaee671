"""Every kind and operation through the service: a job, its result, its data and its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import httpx
import pytest
from pyarrow import parquet

from decoder.kinds.interface import has_candidates
from decoder.options import Operation
from simulations.experiments.demo import held_values
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import Running, running, submit, upload
from tests.decoder_service.test_pages import INLINE, signed_in
from tests.kinds.test_decoding import CASES, groups_of
from tests.kinds.worlds import EVIL, world_of

WITH_PLACES = {("location", "decode"), ("location", "compare"), ("flow", "decode")}


@dataclass
class Done:
    """The service, ana's browser and key, and her results by kind and operation."""

    served: Running
    browser: httpx.Client
    ana: httpx.Client
    results: dict[tuple[str, str], str]


def spec_of(ana: httpx.Client, kind: str, operation: str) -> dict[str, Any]:
    """A job on uploads of a world's counts."""
    world = world_of(kind)
    groups = [[upload(ana, one.to_json().encode()) for one in group]
              for group in groups_of(world, operation)]  # fmt: skip
    sources = [{"aggregates": group} for group in groups]
    spec: dict[str, Any] = {"operation": operation, "source": sources[-1]}
    if operation == "compare":
        spec["before"] = sources[0]
    metric = world.file.declared[0]
    if has_candidates(kind) and not metric.rules.all_values(metric):
        content = "\n".join(map(str, held_values(metric))).encode()
        listed = ana.post(f"/v1/lists?name=held of a {operation}", content=content).json()
        spec["candidates"] = {"list": listed["id"]}
    return spec


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    folder = tmp_path_factory.mktemp("kinds")
    database = f"sqlite:///{folder}/d.sqlite"
    with running(database, tick_seconds=0) as served, served.client("ana") as ana:
        jobs = {case: submit(ana, spec_of(ana, *case)) for case in CASES}
        assert do_jobs(served.service, folder) == len(CASES)
        ended = {case: ana.get(f"/v1/jobs/{job}").json() for case, job in jobs.items()}
        assert {one["state"] for one in ended.values()} == {"done"}, ended
        results = {case: one["result_id"] for case, one in ended.items()}
        with signed_in(served, "ana") as browser:
            yield Done(served, browser, ana, results)


def page(browser: httpx.Client, path: str) -> str:
    """A page: never what a device or a declaration wrote as markup, no script of its own."""
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text[:400]
    assert EVIL not in answer.text
    assert not INLINE.search(answer.text)
    return answer.text


@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_a_job_ends_on_its_page(kind: str, operation: Operation, done: Done) -> None:
    result = done.results[kind, operation]
    metric = world_of(kind).file.declared[0].base_name
    summary = done.ana.get(f"/v1/results/{result}").json()["summary"]
    assert summary["headline"]
    shown = page(done.browser, f"/results/{result}")
    assert metric in shown
    assert f"/results/{result}" in page(done.browser, "/results")
    assert metric in page(done.browser, f"/metrics/{metric}")


@pytest.mark.parametrize(("kind", "operation"), CASES)
def test_the_tables_are_there_in_their_formats(kind: str, operation: Operation, done: Done) -> None:
    path = f"/v1/results/{done.results[kind, operation]}/data"
    found = done.ana.get(f"{path}?format=json").json()
    assert found["metric"] == world_of(kind).file.declared[0].base_name
    rows = done.ana.get(f"{path}?format=csv").text.splitlines()
    stored = parquet.read_table(BytesIO(done.ana.get(f"{path}?format=parquet").content))
    assert stored.num_rows == len(rows) - 1
    places = done.ana.get(f"{path}?format=geojson").status_code
    assert places == (200 if (kind, operation) in WITH_PLACES else 404)


def test_forms_know_every_kind(done: Done) -> None:
    for kind, _ in CASES:
        assert kind in page(done.browser, f"/jobs/new?kind={kind}")
