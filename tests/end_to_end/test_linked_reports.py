"""Linked reports that a collector keeps: from devices to EM beside the moments, and their end."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from collector.domain.batch_writer import Receipt
from collector.domain.closing import clean_up
from collector.domain.submission import Submission
from collector.errors import MetricChangeError
from collector.store.raw import count_raw
from decoder.association.em import likeliest_table
from decoder.association.linked import LinkedReports
from decoder.association.linked_counts import linked_side
from decoder.errors import CountsError
from decoder.formats.linked_reports import read_linked
from rappor_core.calendar import day_of
from rappor_core.errors import MetricsFileError
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import JSON_CONTENT_TYPE
from tests.association_support import linked_body, linked_file, linked_pair
from tests.collector.support import TODAY, Clock, make_bench, running_server
from tests.end_to_end.command import run

OF = 'of = ["theme", "crashed"]'
KEPT = {OF: f"{OF}\nkeep_raw_days = 3650"}  # commands count them from the machine's day
DEVICES = 400
SHARES = {("light", False): 0.45, ("light", True): 0.05, ("dark", False): 0.2, ("dark", True): 0.3}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, LinkedReports]:
    """A database after a day, of which linked reports are kept; and those reports."""
    url = f"sqlite:///{tmp_path_factory.mktemp('kept')}/collector.sqlite"
    file, rng, bench = linked_file(**KEPT), random.Random(5), make_bench(url)
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    values = rng.choices(list(SHARES), list(SHARES.values()), k=DEVICES)
    pairs = [linked_pair(file, "theme_crashed", held, TODAY, rng) for held in values]
    pairs += [linked_pair(file, "home_engine", ("a", "b"), TODAY, rng) for _ in range(40)]
    for some in (pairs[:DEVICES], pairs[DEVICES:]):
        body = linked_body(some)
        batch = decode_batch(body, JSON_CONTENT_TYPE)
        (receipt,) = bench.writer.write([Submission(batch, body[-18:-2], len(body))])
        assert isinstance(receipt, Receipt)
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    linked = bench.collector.registry().linked.values()
    with bench.database.read() as connection:
        day = day_of(TODAY)
        stored = {one.metric.name: count_raw(connection, one.series_id, day, day) for one in linked}
    assert stored == {"theme_crashed": DEVICES, "home_engine": 0}
    bench.database.close()
    sides = [
        np.array([[one[side].bits[0] >> i & 1 for i in range(width)] for one in pairs[:DEVICES]])
        for side, width in ((0, 3), (1, 1))
    ]
    bits = [side.astype(np.uint8) for side in sides]
    return url, LinkedReports(np.zeros(DEVICES, dtype=np.intp), bits[0], bits[1])


@pytest.mark.long
def test_em_over_http_keeps_the_moments_intervals(
    kept: tuple[str, LinkedReports],
) -> None:
    url, sent = kept
    clock = Clock()
    clock.pass_days(1)
    with running_server(None, clock, database=url) as server:
        source = "--collector", str(server.http.base_url)
        content = json.loads(run("association", "theme_crashed", *source, "--raw", "--json").stdout)
        plain = json.loads(run("association", "theme_crashed", *source, "--json").stdout)
        missing = server.http.get("/v1/associations/home_engine/reports")
    assert missing.status_code == 409
    one = next(one for one in linked_file(**KEPT).associations if one.name == "theme_crashed")
    first, second = (linked_side(metric, None, one.num_cohorts) for metric in one.metrics)
    expected = likeliest_table(sent, first, second).table.ravel()
    found = [cell.pop("likelihood") for cell in content["cells"]]
    assert found == pytest.approx(expected.tolist(), abs=2e-3)
    moments = [{k: v for k, v in cell.items() if k != "likelihood"} for cell in plain["cells"]]
    assert content["cells"] == moments
    assert content["reports"] == DEVICES


def test_from_the_database_and_not_from_a_file(
    kept: tuple[str, LinkedReports], tmp_path: Path
) -> None:
    counts = tmp_path / "counts.json"
    one = "association", "theme_crashed", "--database", kept[0]
    done = run(*one, "--raw", "--json", "--aggregate-to", str(counts))
    assert sum(c["likelihood"] for c in json.loads(done.stdout)["cells"]) == pytest.approx(1)
    said = run("association", "--raw", "--aggregate", str(counts), returns=2).stderr
    assert "a file holds counts" in said


def test_linked_reports_go_after_their_days(tmp_path: Path) -> None:
    file, rng = linked_file(**KEPT), random.Random(6)
    bench = make_bench(f"sqlite:///{tmp_path}/collector.sqlite")
    with closing(bench.database):
        bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
        body = linked_body([linked_pair(file, "theme_crashed", ("dark", True), TODAY, rng)])
        bench.writer.write(
            [Submission(decode_batch(body, JSON_CONTENT_TYPE), body[-18:-2], len(body))]
        )
        registry, day = bench.collector.registry(), day_of(TODAY)
        (series,) = (key for key, one in registry.linked.items() if one.metric.keep_raw_days)
        for passed, left in ((3_650, 1), (3_651, 0)):
            clean_up(bench.database, registry, day + passed, day + passed)
            with bench.database.read() as connection:
                assert count_raw(connection, series, day, day) == left


def test_keeping_linked_reports_later_weakens(tmp_path: Path) -> None:
    before, after = linked_file(), linked_file(**KEPT)
    bench = make_bench(f"sqlite:///{tmp_path}/collector.sqlite")
    with closing(bench.database):
        push = bench.collector.push_metrics
        push(before.metrics.values(), "test", associations=before.associations)
        with pytest.raises(MetricChangeError, match="theme_crashed: keep_raw_days from 0 to 3650"):
            push(after.metrics.values(), "test", associations=after.associations)
        told = push(after.metrics.values(), "test", associations=after.associations, weaken=True)
        assert list(told.changed) == ["theme_crashed"]
        push(before.metrics.values(), "test", associations=before.associations)
        assert not any(
            one.metric.keep_raw_days for one in bench.collector.registry().linked.values()
        )


def test_the_key_is_checked_and_changes_no_meaning() -> None:
    plain, kept_ones = linked_file().associations, linked_file(**KEPT).associations
    assert [one.params_id for one in plain] == [one.params_id for one in kept_ones]
    assert [one.keep_raw_days for one in kept_ones] == [0, 3_650]
    for wrong in ("-1", "3651", "true", '"7"'):
        with pytest.raises(MetricsFileError, match="keep_raw_days"):
            linked_file(**{OF: f"{OF}\nkeep_raw_days = {wrong}"})


def test_lines_that_are_no_linked_reports_are_refused() -> None:
    (one,) = (one for one in linked_file().associations if one.name == "theme_crashed")
    line = {"association": one.name, "params_id": one.params_id, "cohort": 0,
            "day": "2026-11-21", "bits": ["BQ==", "AQ=="]}  # fmt: skip
    found = read_linked([json.dumps(line).encode()], one)
    assert (found.first.tolist(), found.second.tolist()) == ([[1, 0, 1]], [[1]])
    for change, message in (
        ({"cohort": 1}, "cohort is not below"),
        ({"cohort": True}, "cohort is not below"),
        ({"bits": ["BQ==", "AQEB"]}, "bits are not"),
        ({"bits": ["BQ=="]}, "bits are not"),
        ({"bits": ["?", "AQ=="]}, "linked report 1"),
        ({"params_id": "0" * 32}, "another association or version"),
        ({"more": 1}, "not a linked report"),
    ):
        with pytest.raises(CountsError, match=message):
            read_linked([json.dumps(line | change).encode()], one)
    with pytest.raises(CountsError, match="linked report 1"):
        read_linked([b"["], one)
