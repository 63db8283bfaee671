"""Two metrics that are collected anyway: from devices over HTTP to the files of their table."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import httpx
import pytest

from client_sdk import Client, Delivery
from collector.domain.batch_writer import Receipt
from collector.domain.submission import Submission
from rappor_core.association_aggregate import AssociationAggregate
from rappor_core.wire.decode import decode_batch
from rappor_core.wire.report import JSON_CONTENT_TYPE
from tests.association_support import TEXT, linked_body, linked_file, linked_pair
from tests.collector.support import NOON, TODAY, Clock, make_bench, running_server
from tests.end_to_end.command import run

DEVICES = 1_200
SHARES = {("light", False): 0.45, ("light", True): 0.05, ("dark", False): 0.2, ("dark", True): 0.3}
AT_ONCE = Delivery(mean_delay=600.0, first_pause=0.05, timeout=10)


def test_clients_and_a_collector_over_http(tmp_path: Path) -> None:
    """What both send and count is the same as without a link, and the pairs besides."""
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(TEXT)
    database = f"sqlite:///{tmp_path}/collector.sqlite"
    now = NOON.timestamp()
    with running_server(None, Clock(), database=database) as server:
        pushed = server.http.post("/v1/metrics", content=TEXT.encode())
        assert pushed.json()["changed"] == ["home_engine", "theme_crashed"]
        for device in range(6):
            with Client.open(
                metrics,
                state_dir=tmp_path / f"device{device}",
                collector=str(server.http.base_url),
                consent=True,
                clock=lambda: now,
                delivery=AT_ONCE.replace(json=device % 2 == 0),
            ) as client:
                assert client.record("homepage", "a")
                assert client.record("crashed", device == 0)
                if device < 4:
                    assert client.record("engine", "b")
                    assert client.record("theme", "dark")
                assert client.flush(20), client.last_error
                held = client.inspect()["queued"]
                assert held == ({} if device < 4 else {"homepage": 1, "crashed": 1})
        linked = server.http.get("/v1/associations").json()["associations"]
        assert [(one["name"], one["linked"]) for one in linked] == [
            ("home_engine", 4),
            ("theme_crashed", 4),
        ]
        accepted = {
            one["name"]: one["accepted"] for one in server.http.get("/v1/metrics").json()["metrics"]
        }
        assert accepted == {"homepage": 4, "engine": 4, "theme": 4, "crashed": 4}
        refused: httpx.Response = server.http.get("/v1/associations/home_engine/aggregate")
        assert refused.status_code == 409
        assert refused.json()["reason"] == "no_closed_days"
        assert server.http.get("/v1/associations/none/aggregate").status_code == 404


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[tuple[str, bool]]]:
    """A collector's database after a day of linked reports, and what the devices held."""
    url = f"sqlite:///{tmp_path_factory.mktemp('linked')}/collector.sqlite"
    file, rng, bench = linked_file(), random.Random(5), make_bench(url)
    bench.collector.push_metrics(file.metrics.values(), "test", associations=file.associations)
    values = rng.choices(list(SHARES), list(SHARES.values()), k=DEVICES)
    pairs = [linked_pair(file, "theme_crashed", held, TODAY, rng) for held in values]
    for start in range(0, DEVICES, 400):
        body = linked_body(pairs[start : start + 400])
        batch = decode_batch(body, JSON_CONTENT_TYPE)
        (receipt,) = bench.writer.write([Submission(batch, body[-18:-2], len(body))])
        assert isinstance(receipt, Receipt)
        assert receipt.accepted == 800
    bench.clock.pass_days(1)
    bench.collector.close_day(TODAY, "test")
    bench.database.close()
    return url, values


def test_from_the_collector_to_the_files(
    database: tuple[str, list[tuple[str, bool]]], tmp_path: Path
) -> None:
    """Five standard errors, as the table states them; the file of counts decodes to the same."""
    url, values = database
    kept, out = tmp_path / "linked.json", tmp_path / "out"
    days = ["--from", TODAY.isoformat(), "--to", TODAY.isoformat()]
    asked = ["association", "theme_crashed", "--database", url, *days, "--json"]
    done = run(*asked, "--aggregate-to", str(kept), "-o", str(out))
    content = json.loads(done.stdout)
    assert content["reports"] == DEVICES
    assert content["independence"]["refuted"]
    with (out / "joint.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        held = row["theme"], row["crashed"] == "true"
        share = values.count(held) / DEVICES
        assert abs(float(row["estimate"]) - share) < 5 * float(row["std_error"])
    assert "<svg" in (out / "report.html").read_text()
    assert AssociationAggregate.from_json(kept.read_text()).num_reports == DEVICES
    again = run("association", "--aggregate", str(kept), "--json")
    assert json.loads(again.stdout)["cells"] == content["cells"]


def test_what_is_asked_wrongly_is_refused_in_words(
    database: tuple[str, list[tuple[str, bool]]], tmp_path: Path
) -> None:
    url, _ = database
    assert "--collector URL" in run("association", "theme_crashed", returns=2).stderr
    needless = tmp_path / "list.txt"
    needless.write_text("a\nb\n")
    on = ["association", "theme_crashed", "--database", url]
    said = run(*on, "--candidates1", str(needless), returns=1).stderr
    assert "has a list of its own" in said
