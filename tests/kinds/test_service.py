"""Every kind and operation through the service: a job, its result, its data and its page."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import httpx
import pytest
from pyarrow import parquet

from decoder.kinds.interface import has_candidates
from simulations.experiments.demo import held_values
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import Running, running, submit, upload
from tests.decoder_service.test_pages import INLINE, signed_in
from tests.kinds.test_decoding import CASES, groups_of
from tests.kinds.worlds import EVIL, world_of

LONG = pytest.mark.long
ALSO_QUICK = [("string", "series"), ("location", "compare")]  # of each other operation one kind
RUN = [
    case if case[1] == "decode" or case in ALSO_QUICK else pytest.param(*case, marks=LONG)
    for case in CASES
]
WITH_PLACES = {("location", "decode"), ("location", "compare"), ("flow", "decode")}


@dataclass
class Desk:
    """The service, and ana's browser and key."""

    served: Running
    browser: httpx.Client
    ana: httpx.Client


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
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    database = f"sqlite:///{tmp_path_factory.mktemp('kinds')}/d.sqlite"
    with (
        running(database, tick_seconds=0) as served,
        served.client("ana") as ana,
        signed_in(served, "ana") as browser,
    ):
        yield Desk(served, browser, ana)


def page(browser: httpx.Client, path: str) -> str:
    """A page: never what a device or a declaration wrote as markup, no script that it contains."""
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text[:400]
    assert EVIL not in answer.text
    assert not INLINE.search(answer.text)
    return answer.text


@pytest.mark.parametrize(("kind", "operation"), RUN)
def test_a_job_ends_on_its_page_and_tables(kind, operation, desk, tmp_path) -> None:
    job = submit(desk.ana, spec_of(desk.ana, kind, operation))
    assert do_jobs(desk.served.service, tmp_path) == 1
    ended = desk.ana.get(f"/v1/jobs/{job}").json()
    assert ended["state"] == "done", ended
    result = ended["result_id"]
    metric = world_of(kind).file.declared[0].base_name
    assert desk.ana.get(f"/v1/results/{result}").json()["summary"]["headline"]
    assert metric in page(desk.browser, f"/results/{result}")
    assert f"/results/{result}" in page(desk.browser, "/results")
    assert metric in page(desk.browser, f"/metrics/{metric}")

    data = f"/v1/results/{result}/data"
    assert desk.ana.get(f"{data}?format=json").json()["metric"] == metric
    rows = desk.ana.get(f"{data}?format=csv").text.splitlines()
    stored = parquet.read_table(BytesIO(desk.ana.get(f"{data}?format=parquet").content))
    assert stored.num_rows == len(rows) - 1
    places = desk.ana.get(f"{data}?format=geojson").status_code
    assert places == (200 if (kind, operation) in WITH_PLACES else 404)


def test_forms_know_every_kind(desk) -> None:
    for kind, _ in CASES:
        assert kind in page(desk.browser, f"/jobs/new?kind={kind}")
