"""Jobs of numbers, pairs and discoveries: from counts to a page; what they refuse."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from pyarrow import parquet

from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.support import Running, running, submit, upload
from tests.decoder_service.test_pages import INLINE, signed_in
from tests.discovery_support import small_metric
from tests.metric_texts import declaration
from tests.number_draws import aggregate_of
from tests.pair_support import drawn_pairs
from tests.prefix_draws import StringPopulation

EVIL = "<script>alert(1)</script>"
NUMBER = declaration(
    "startup", "number", owner="web@example.org", expires="2099-06-30", unit="s",
    of_period="median", none="apart", edges=[1, 2, 4, 8], mode="memo", epsilon_infinity=4.0,
    epsilon_one=3.0,
)  # fmt: skip
PAIR = f"""
[metrics.theme_crashed]
kind = "pair"
of = ["theme", "crashed"]
values.theme = ["dark", "{EVIL}", "other"]
values.crashed = [false, true]
description = "Colors, and whether it crashed"
owner = "web@example.org"
expires = 2099-06-30
mechanism = "l-osue"
epsilon_infinity = 6.0
epsilon_one = 4.0
max_memoized_values = 3
fallback = "other | false"
"""
SHARES = np.array([[0.1, 0.3], [0.5, 0.05], [0.04, 0.01]])


def dated(one: Aggregate, metric: Metric) -> bytes:
    day = date(2026, 11, 9)
    return (
        replace(
            one,
            definition=metric.to_dict(),
            params_id=metric.params_id,
            first_day=day,
            last_day=day,
        )
        .to_json()
        .encode()
    )


def counts() -> dict[str, bytes]:
    rng = np.random.default_rng(4)
    startup = parse_metrics(NUMBER).metrics["startup"]
    theme = parse_metrics(PAIR).metrics["theme_crashed"]
    site = small_metric()
    strings = ["news.com", "mail.org", "=1+1.net", "\u202egnp.de"]
    found, _ = StringPopulation.of(site, strings).draw(np.full(4, 0.25), 60_000, rng)
    falling = np.array([0.95, 0.9, 0.6, 0.3, 0.05])
    return {
        "number": aggregate_of(startup, falling, 20_000, rng).to_json().encode(),
        "pair": dated(drawn_pairs(theme, SHARES, 20_000, rng), theme),
        "discover": dated(found, site),
    }


@dataclass
class Kinds:
    """The service, ana's browser, and her results by kind."""

    served: Running
    browser: httpx.Client
    results: dict[str, str]
    uploads: dict[str, str]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    folder = tmp_path_factory.mktemp("kinds")
    with (
        running(f"sqlite:///{folder}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
    ):
        uploads = {kind: upload(ana, content) for kind, content in counts().items()}
        jobs = {
            kind: submit(ana, {"source": {"aggregates": [sha]}}) for kind, sha in uploads.items()
        }
        assert do_jobs(served.service, folder) == 3
        ended = {kind: ana.get(f"/v1/jobs/{job}").json() for kind, job in jobs.items()}
        assert {one["state"] for one in ended.values()} == {"done"}, ended
        results = {kind: one["result_id"] for kind, one in ended.items()}
        with signed_in(served, "ana") as browser:
            yield Kinds(served, browser, results, uploads)


def page(kinds: Kinds, path: str) -> str:
    answer = kinds.browser.get(path)
    assert answer.status_code == 200, answer.text[:400]
    assert EVIL not in answer.text
    assert "\u202e" not in answer.text
    assert not INLINE.search(answer.text)
    return answer.text


def startup(number: int, above: float) -> bytes:
    """Counts of the metric of numbers on one day: `above` is the share at or above 4 s."""
    rng = np.random.default_rng(number)
    falling = np.array([0.95, 0.9, max(0.6, above), above, 0.05])
    metric = parse_metrics(NUMBER).metrics["startup"]
    day = date(2026, 11, 9) + timedelta(days=number)
    one = aggregate_of(metric, falling, 20_000, rng)
    return replace(one, first_day=day, last_day=day).to_json().encode()


def test_a_metric_of_numbers_over_time(kinds: Kinds, tmp_path: Path) -> None:
    """A series of it has the files and the page of any series; its shares are those of edges."""
    with kinds.served.client("ana") as ana:
        days = [upload(ana, startup(n, above)) for n, above in enumerate((0.3, 0.3, 0.7))]
        source = {"aggregates": days}
        job = submit(ana, {"operation": "series", "source": source})
        listed = ana.post("/v1/lists?name=none needed", content=b"a\n").json()["id"]
        candidates = {"list": listed}
        spec = {"operation": "series", "source": source, "candidates": candidates}
        refused = submit(ana, spec)
        assert do_jobs(kinds.served.service, tmp_path) == 2
        assert "leave it out" in ana.get(f"/v1/jobs/{refused}").json()["reason"]
        ended = ana.get(f"/v1/jobs/{job}").json()
        assert ended["state"] == "done", ended
        data = f"/v1/results/{ended['result_id']}/data"
        found = ana.get(f"{data}?format=json").json()
        table = ana.get(f"{data}?format=csv").text.splitlines()
        frame = parquet.read_table(BytesIO(ana.get(f"{data}?format=parquet").content))
        assert frame.num_rows == len(table) - 1 == len(found["rows"]) == 3 * 5  # edges, any data
        shares = [row for row in found["rows"] if row["string"] == "at or above 4 s"]
        assert [row["low"] < above / 0.95 < row["high"] for row, above in
                zip(shares, (0.3, 0.3, 0.7), strict=True)] == [True] * 3  # fmt: skip
        changed = [one for one in found["changes"] if one["string"] == "at or above 4 s"]
        assert [one["p_adjusted"] < 0.001 for one in changed] == [False, True, True]
        summary = ana.get(f"/v1/results/{ended['result_id']}").json()["summary"]
        assert [one["reports"] for one in summary["windows"]] == [20_000] * 3
    shown = page(kinds, f"/results/{ended['result_id']}")
    assert "at or above 4 s" in shown
    assert "changed, p" in shown
    assert "No value holds" in page(kinds, f"/results/{ended['result_id']}?q=nothing")
    assert "at or above 4 s" in page(kinds, "/metrics/startup")


def test_a_page_for_each_kind(kinds: Kinds) -> None:
    number = page(kinds, f"/results/{kinds.results['number']}")
    assert "Share at or above" in number
    assert "<svg" in number
    pair = page(kinds, f"/results/{kinds.results['pair']}")
    assert "<b>rejected</b>" in pair
    assert "&lt;script&gt;" in pair
    assert 'class="detected s' in pair
    assert "2 of 6 rows" in page(kinds, f"/results/{kinds.results['pair']}?q=dark")
    discover = page(kinds, f"/results/{kinds.results['discover']}")
    assert "Devices chose this text" in discover
    listed = page(kinds, "/results")
    assert listed.count("/results/") >= 3
    for kind in kinds.results:
        assert kind in page(kinds, f"/jobs/new?kind={kind}")


def test_read_strings_are_kept_as_lists(kinds: Kinds) -> None:
    """None of them is released as it is; ticked ones become a list with its source."""
    result = kinds.results["discover"]
    with kinds.served.client("ana") as ana:
        summary = ana.get(f"/v1/results/{result}").json()["summary"]
        assert "news" not in json.dumps(summary)  # not what devices chose, where nobody asked
        refused = ana.post(f"/v1/results/{result}/release", json={"released": True})
        assert refused.status_code == 422
        assert "text that devices chose" in refused.text
        found = ana.get(f"/v1/results/{result}/data?format=json").json()["found"]
        wanted = [row for row in found if row["whole"] and not row["declared"]]
        assert wanted
        path = f"/results/{result}/keep"
        assert kinds.browser.post(path, data={"name": "read"}).status_code == 422
        other = f"/results/{kinds.results['number']}/keep"  # of a kind whose results have none
        assert kinds.browser.post(other, data={"name": "read", "id": "f" * 12}).status_code == 422
        form: dict[str, Any] = {"name": "read", "id": [wanted[0]["id"], "f" * 12]}
        made = kinds.browser.post(path, data=form)
        assert made.status_code == 303
        listed = made.headers["location"].rpartition("/")[2]
        content = ana.get(f"/v1/lists/{listed}/content").text
        assert content == wanted[0]["string"] + "\n"
        assert ana.get(f"/v1/lists/{listed}").json()["source"].endswith("read by ana")
    with signed_in(kinds.served, "ben") as ben:
        assert ben.post(path, data=form).status_code == 404
