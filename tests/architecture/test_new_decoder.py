"""A kind with a decoder of its own goes from `metrics.toml` to a page of the service.

The kind of `test_new_kind.py` gets a decoder that is made up here. Both are registered, its
template stands for a file in `decoder/output/templates`, and nothing else is touched.
"""

from __future__ import annotations

import ast
import csv
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from jinja2 import ChoiceLoader, DictLoader

from client_sdk import Encoder
from decoder import decode, metric_candidates
from decoder.errors import DecodeError
from decoder.files import write_files
from decoder.output.dictionary import entries_of
from decoder.output.tables import TableQuery, page_of
from decoder.progress import Progress
from decoder.sources.windows import Each, sum_of
from decoder.workflows import kinds as register
from decoder.workflows.decoding import DecodeJob
from decoder.workflows.kinds import (
    AnswerTable,
    DecoderKind,
    FetchedCounts,
    KindAnswer,
    KindSeries,
    decoder_kind_names,
    register_decoder_kind,
    run_own,
)
from decoder_service.client import Service
from decoder_service.jobs import kinds as kinds_of_jobs
from decoder_service.jobs.kinds import (
    JobInputs,
    JobKind,
    StoredResult,
    job_kinds,
    register_job_kind,
)
from decoder_service.jobs.specs import JobSpec
from decoder_service.shell.web import environment
from rappor_core.aggregate import Aggregate
from rappor_core.errors import ParameterError
from rappor_core.metrics.kinds import kind_named
from rappor_core.metrics.metric import Metric
from tests.architecture.test_new_kind import metric
from tests.architecture.trees import nodes_of
from tests.collector.support import TODAY, served_after_a_day
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY, live_collector
from tests.decoder_service.support import Running, running, submit, upload
from tests.decoder_service.test_pages import signed_in

__all__ = ["metric"]

ROOT = Path(__file__).parents[2]
TEMPLATE = """
{% import "tables.html.j2" as tables %}
<p class="stars">{{ mean }} stars</p>
{{ tables.search(query, "Search stars") }}
{% for row in table.rows %}<b>{{ row.stars }}</b>{% endfor %}
{{ tables.pages(table) }}
"""


TOTALS = """<p class="totals">{{ total }}</p>"""


class Ratings(DecoderKind):
    """The mean number of stars."""

    name = "stars"
    title = "Ratings"
    purpose = "mean number of stars of an app"
    table = "stars.csv"
    template = "result_stars.html.j2"
    has_series = True

    def run(self, job: DecodeJob, counts: Aggregate, progress: Progress) -> KindAnswer:
        """Decode one window."""
        content = _content(counts, job)
        progress("stars", 1, 1)
        return KindAnswer(content, (), files=_write(content, job.output))

    def run_series(
        self, job: DecodeJob, windows: tuple[Aggregate, ...], progress: Progress
    ) -> KindAnswer:
        """Decode the sum, and each window."""
        content = _content(sum_of(windows), job)
        content |= {"windows": [_content(one, job) for one in windows]}
        progress("stars", 1, 1)
        return KindAnswer(content, (AnswerTable("stars", ("mean",), ()),))

    def in_list(self, summary: dict[str, Any]) -> str:
        """How many reports."""
        return f"{summary['num_reports']} ratings"

    def view(self, content: dict[str, Any], query: TableQuery) -> dict[str, Any]:
        """What the template is filled with."""
        table = page_of(content["stars"], "stars", query)
        return {"mean": f"{content['mean']:.1f}", "table": table}

    def series(self, content: dict[str, Any]) -> KindSeries:
        """Shares of each number of stars."""
        windows, rows = [], []
        for one in content["windows"]:
            days = {"first_day": one["day"], "last_day": one["day"]}
            windows.append(days | {"reports": one["num_reports"]})
            rows += [
                windows[-1] | {"string": f"{row['stars']} stars", "proportion": row["share"],
                               "std_error": 0.01, "low": 0.0, "high": 1.0}
                for row in one["stars"]
            ]  # fmt: skip
        return KindSeries(windows, rows, [])

    def series_in_list(self, summary: dict[str, Any]) -> str:
        """How many days."""
        return f"stars of {len(summary['windows'])} days"


class Totals(JobKind):
    """How many reports there are, of any metric."""

    name, title, purpose = "totals", "Totals", "how many reports"
    template = "result_totals.html.j2"

    def decodes(self, metric_kind: str | None) -> bool:
        """Any metric."""
        return metric_kind != ""

    def run(self, inputs: JobInputs, progress: Progress) -> dict[str, Any]:
        """Add the reports."""
        total = sum(one.num_reports for one in inputs.all)
        progress("adding", 1, 1)
        inputs.folder.mkdir()
        (inputs.folder / "results.json").write_text(json.dumps({"total": total}))
        return {"num_reports": total, "warnings": []}

    def in_list(self, summary: Mapping[str, Any]) -> str:
        """The total."""
        return f"{summary['num_reports']} in all"

    def view(self, result: StoredResult, query: TableQuery) -> dict[str, Any]:
        """What the template is filled with."""
        assert query.q == ""
        return dict(json.loads(result.read("results.json")))

    def command(self, spec: JobSpec, metric: str, sources: Sequence[Sequence[str]]) -> list[str]:
        """A command of an app."""
        assert (spec.kind, metric) == (self.name, "rating")
        return ["rappor", "totals", *sources[0]]


def _content(counts: Aggregate, job: DecodeJob) -> dict[str, Any]:
    table = decode(counts, metric_candidates(counts), job.options).candidates
    shares = dict(zip(table.values, table.estimate.tolist(), strict=True))
    return {
        "day": str(counts.first_day),
        "num_reports": counts.num_reports,
        "mean": sum(int(stars) * share for stars, share in shares.items()),
        "stars": [{"stars": stars, "share": share} for stars, share in shares.items()],
        "warnings": [],
    }


def _write(content: dict[str, Any], folder: Path | str | None) -> tuple[Path, ...]:
    def table(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(row.values() for row in content["stars"])

    files = {"results.json": lambda path: path.write_text(json.dumps(content)), "stars.csv": table}
    return write_files(folder, files) if folder else ()


@dataclass
class Rated:
    """A service, ana's browser and key, and the uploaded counts of two days."""

    served: Running
    browser: httpx.Client
    ana: httpx.Client
    days: list[str]

    def done(self, folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
        """The job of a specification, once a worker has done it."""
        job = submit(self.ana, spec)
        assert do_jobs(self.served.service, folder) == 1
        ended: dict[str, Any] = self.ana.get(f"/v1/jobs/{job}").json()
        assert ended["state"] == "done", ended
        return ended

    def page(self, path: str) -> str:
        """A page, as a person sees it."""
        answer = self.browser.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture
def counts(
    metric: Metric,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Aggregate:
    """What a collector serves of the made-up kind, whose decoder is registered for one test."""
    monkeypatch.setattr(register, "_LOADED", dict(register._LOADED))
    register_decoder_kind(Ratings())
    rng = random.Random(5)
    reports = [
        Encoder({metric.name: metric}, rng.randbytes(32), rng.randbytes).encode(
            metric.name, stars, TODAY
        )
        for stars in rng.choices((1, 2, 5), (0.5, 0.3, 0.2), k=1500)
    ]
    return served_after_a_day(tmp_path, metric, reports)


@pytest.fixture
def rated(counts: Aggregate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rated]:
    pages = environment()
    template = DictLoader({Ratings.template: TEMPLATE, Totals.template: TOTALS})
    monkeypatch.setattr(pages, "loader", ChoiceLoader([template, *filter(None, [pages.loader])]))
    later = TODAY + timedelta(days=1)
    both = (counts, replace(counts, first_day=later, last_day=later))
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
        signed_in(served, "ana") as browser,
    ):
        yield Rated(served, browser, ana, [upload(ana, one.to_json().encode()) for one in both])


def test_a_new_kinds_job_ends_on_its_page(rated: Rated, tmp_path: Path) -> None:
    """Posted over HTTP, done by a worker, shown by the kind's own template and words."""
    form = rated.page("/jobs/new?kind=stars")
    assert "Stars: mean number of stars of an app." in form
    assert f'value="{rated.days[0]}"' in form
    source = {"aggregates": rated.days[:1]}
    result = rated.done(tmp_path, {"kind": "stars", "source": source})["result_id"]

    shown = rated.page(f"/results/{result}")
    mean = re.search(r'<p class="stars">(\d\.\d) stars</p>', shown)
    assert mean is not None
    assert abs(float(mean[1]) - 2.1) < 0.4
    assert "Ratings, " in shown
    assert "rappor decode --aggregate" in shown
    assert "<b>5</b>" in shown
    assert "1 of 5 rows" in rated.page(f"/results/{result}?q=5")
    for path in ("/results", "/results?kind=stars"):
        assert "1500 ratings" in rated.page(path)
    assert "/jobs/new?metric=rating&amp;kind=stars" in rated.page("/metrics/rating")

    data = f"/v1/results/{result}/data"
    assert len(rated.ana.get(f"{data}?format=csv").text.splitlines()) == 5
    assert rated.ana.get(f"{data}?format=parquet").status_code == 404
    assert rated.ana.get("/v1/results?kind=stars").json()["results"][0]["id"] == result
    service = Service(rated.served.url, rated.served.keys["ana"])
    assert [row["stars"] for row in service.result(result).rows()] == ["1", "2", "3", "4", "5"]


def test_a_new_kind_is_in_the_public_dictionary(
    metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of its own list; in its own words where it has them."""
    (entry,) = entries_of([metric], TODAY)
    assert (entry.what, entry.answers) == ("one of the answers listed", ("1", "2", "3", "4", "5"))
    monkeypatch.setattr(type(kind_named(metric.kind)), "in_words", "how many stars")
    (entry,) = entries_of([metric], TODAY)
    assert entry.what == "how many stars"


def test_a_new_kind_of_job_is_one_module(
    rated: Rated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Form, check, worker, list, page, download and command are all of its class."""
    monkeypatch.setattr(kinds_of_jobs, "_LOADED", dict(kinds_of_jobs._LOADED))
    register_job_kind(Totals())
    assert "Totals: how many reports." in rated.page("/jobs/new?kind=totals")
    spec = {"kind": "totals", "source": {"aggregates": rated.days[:1]}}
    given = rated.ana.post("/v1/jobs", json=spec | {"candidates": {"numbers": [0, 5]}})
    assert "candidates: not of a totals" in given.text
    result = rated.done(tmp_path, spec)["result_id"]
    shown = rated.page(f"/results/{result}")
    assert '<p class="totals">1500</p>' in shown
    assert "rappor totals --aggregate" in shown
    assert "1500 in all" in rated.page("/results?kind=totals")
    assert rated.ana.get(f"/v1/results/{result}/data?format=json").json() == {"total": 1500}
    with pytest.raises(ParameterError, match="there is a kind of job 'totals' already"):
        register_job_kind(Totals())


def test_a_queued_job_without_kind_says_so(rated: Rated, tmp_path: Path) -> None:
    """A worker without the app's kind: the reason names it and the way out; pages still show."""
    job = submit(rated.ana, {"kind": "stars", "source": {"aggregates": rated.days[:1]}})
    known = register._LOADED.pop("stars")
    assert do_jobs(rated.served.service, tmp_path) == 1
    ended = rated.ana.get(f"/v1/jobs/{job}").json()
    assert ended["state"] == "failed"
    assert ended["reason"].startswith("there is no kind of job 'stars' here; install and register")
    assert "or start one of kind decode, series," in ended["reason"]
    assert "there is no kind of job" in rated.page(f"/jobs/{job}")
    register._LOADED["stars"] = known


def test_a_new_kinds_series_has_any_page(rated: Rated, tmp_path: Path) -> None:
    assert "or of kind number or flow or stars," in rated.page("/jobs/new?kind=series")
    spec = {"kind": "series", "source": {"aggregates": rated.days}}
    result = rated.done(tmp_path, spec)["result_id"]
    shown = rated.page(f"/results/{result}")
    assert "Share of 5 stars over time" in shown
    assert "stars of 2 days" in rated.page("/results?kind=series")
    for form, lines in (("csv", 11), ("json", None), ("parquet", None)):
        answer = rated.ana.get(f"/v1/results/{result}/data?format={form}")
        assert answer.status_code == 200
        assert lines in (None, len(answer.text.splitlines()))


def test_another_kinds_job_names_the_new_one(rated: Rated) -> None:
    source = {"aggregates": rated.days[:1]}
    for kind in ("decode", "discover", "pair", "compare"):
        spec: dict[str, Any] = {"kind": kind, "source": source}
        if kind == "compare":
            spec["before"] = {"aggregates": rated.days[1:]}
        refused = rated.ana.post("/v1/jobs", json=spec)
        assert refused.status_code == 422
        assert "start jobs of kind stars" in refused.json()["detail"]
    refused = rated.ana.post("/v1/jobs", json={"kind": "moons", "source": source})
    assert refused.status_code == 422
    assert "'compare', 'discover', 'number', 'pair', 'flow' or 'stars'" in refused.json()["detail"]
    given = {"candidates": {"numbers": [0, 5]}}
    series = {"kind": "series", "source": {"aggregates": rated.days}, **given}
    assert "leave them out" in rated.ana.post("/v1/jobs", json=series).json()["detail"]


def test_a_schedule_is_not_of_a_new_kind(
    metric: Metric,
    counts: Aggregate,
    tmp_path: Path,
) -> None:
    """Schedules decode values; the collector alone says here of which kind the metric is."""
    del counts
    (tmp_path / "collector").mkdir()
    with (
        live_collector(tmp_path / "collector", {MONDAY: {"word-0": 50}}) as collector,
        running(f"sqlite:///{tmp_path}/d.sqlite", **collector.settings) as served,
        signed_in(served, "ana") as browser,
    ):
        collector.bench.collector.push_metrics([metric], "test")
        form = browser.get("/schedules/new").text
        assert '"homepage"' in form
        assert '"rating"' not in form
        assert "/jobs/new?metric=rating&amp;kind=stars" in browser.get("/metrics/rating").text
        with served.client("ana") as ana:
            made = {"name": "a", "metric": "rating", "every": "week"}
            refused = ana.post("/v1/schedules", json=made)
        assert refused.status_code == 422
        assert "start jobs of kind stars" in refused.json()["detail"]


def test_a_command_decodes_a_new_kind(
    counts: Aggregate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = DecodeJob(FetchedCounts((counts,)), output=tmp_path / "out")
    answer = run_own(job)
    assert isinstance(answer, KindAnswer)
    assert {path.name for path in answer.files} == {"results.json", "stars.csv"}
    monkeypatch.setattr(Ratings, "has_series", False)
    with pytest.raises(DecodeError, match="over one window: leave --each out"):
        run_own(replace(job, output=None), Each.DAY)


def test_a_name_has_one_decoder(counts: Aggregate) -> None:
    del counts
    with pytest.raises(ParameterError, match="kind 'stars' has a decoder already"):
        register_decoder_kind(Ratings())


def test_what_built_in_pages_need_is_there() -> None:
    for name in decoder_kind_names():
        kind = register.decoder_kind(name)
        assert kind is not None
        assert kind.name == name
        assert (ROOT / "decoder" / "output" / "templates" / kind.template).is_file()


@pytest.mark.parametrize("package", ["decoder_service", "rappor_cli"])
def test_no_part_names_a_kind_with_a_decoder(package: str) -> None:
    names = set(decoder_kind_names())
    found = naming(package, names)
    found += [
        str(path.relative_to(ROOT))
        for path in (ROOT / package).rglob("*.j2")
        if re.search(rf"""["']({"|".join(names)})["']""", path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("package", ["jobs", "worker", "results", "releases"])
def test_no_part_names_a_kind_of_job(package: str) -> None:
    found = naming(f"decoder_service/{package}", {kind.name for kind in job_kinds()})
    assert [place for place in found if "jobs/kinds.py" not in place] == []


def naming(package: str, names: set[str]) -> list[str]:
    """Where the modules of a package compare with names, or look something up by them."""
    return [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / package).rglob("*.py")
        for node in nodes_of(path)
        if any(isinstance(one, ast.Constant) and one.value in names for one in _compared(node))
    ]


def _compared(node: ast.AST) -> list[ast.expr]:
    """The expressions of a node that a value may be compared with, looked up or listed by."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Dict():
            return [key for key in node.keys if key is not None]
        case ast.Set():
            return node.elts
        case ast.Assign() | ast.MatchValue():
            return [node.value]
    return []
