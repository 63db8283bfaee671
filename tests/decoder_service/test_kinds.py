"""Strings that a discovery read: what is shown of them, and how an analyst keeps some as a list."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rappor_core.metrics.file import parse_metrics
from tests.decoder_service.in_process import done
from tests.decoder_service.support import assert_answer, running, upload
from tests.decoder_service.test_pages import signed_in
from tests.discovery_support import small_metric
from tests.metric_texts import declaration
from tests.number_draws import aggregate_of
from tests.prefix_draws import StringPopulation

MONDAY = date(2026, 11, 9)
NUMBER = declaration(
    "startup", "number", owner="web@example.org", expires="2099-06-30", unit="s",
    of_period="median", none="apart", edges=[1, 2, 4, 8], mode="memo", epsilon_infinity=4.0,
    epsilon_one=3.0,
)  # fmt: skip


def startup(number: int, above: float) -> bytes:
    """Counts of the metric of numbers on one day: `above` is the share at or above 4 s."""
    rng = np.random.default_rng(number)
    falling = np.array([0.95, 0.9, max(0.6, above), above, 0.05])
    metric = parse_metrics(NUMBER).metrics["startup"]
    day = MONDAY + timedelta(days=number)
    one = aggregate_of(metric, falling, 20_000, rng)
    return replace(one, first_day=day, last_day=day).to_json().encode()


def sites() -> bytes:
    """Counts of strings, of which a device chose some to deceive."""
    site, rng = small_metric(), np.random.default_rng(4)
    strings = ["news.com", "mail.org", "=1+1.net", "\u202egnp.de"]
    found, _ = StringPopulation.of(site, strings).draw(np.full(4, 0.25), 60_000, rng)
    known = {"definition": site.to_dict(), "params_id": site.params_id}
    return replace(found, first_day=MONDAY, last_day=MONDAY, **known).to_json().encode()


def test_read_strings_are_kept_as_lists(tmp_path: Path) -> None:
    """None of them is released as it is; ticked ones become a list with its source."""
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
        served.client("ana") as ana,
        signed_in(served, "ana") as browser,
        signed_in(served, "ben") as ben,
    ):
        result, number = (
            done(served, ana, tmp_path, {"source": {"aggregates": [upload(ana, content)]}})
            for content in (sites(), startup(0, 0.3))
        )
        page = browser.get(f"/results/{result}").text
        assert "This text comes from devices" in page
        assert "\u202e" not in page
        summary = ana.get(f"/v1/results/{result}").json()["summary"]
        assert "news" not in json.dumps(summary)  # not what devices chose, where nobody asked
        assert_answer(
            ana.post(f"/v1/results/{result}/release", json={"released": True}),
            422,
            "text that devices chose",
        )
        found = ana.get(f"/v1/results/{result}/data?format=json").json()["found"]
        wanted = [row for row in found if row["whole"] and not row["declared"]]
        assert wanted
        path = f"/results/{result}/keep"
        assert browser.post(path, data={"name": "read"}).status_code == 422
        other = f"/results/{number}/keep"  # of a kind whose results have none
        assert browser.post(other, data={"name": "read", "id": "f" * 12}).status_code == 422
        form: dict[str, Any] = {"name": "read", "id": [wanted[0]["id"], "f" * 12]}
        assert ben.post(path, data=form).status_code == 404
        made = browser.post(path, data=form)
        assert made.status_code == 303
        listed = made.headers["location"].rpartition("/")[2]
        assert ana.get(f"/v1/lists/{listed}/content").text == wanted[0]["string"] + "\n"
        assert ana.get(f"/v1/lists/{listed}").json()["source"].endswith("read by ana")
