"""The daily series of each metric, and the chart on its page, over a live collector."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import httpx
import pytest

from decoder_service.daily_series.rows import (
    DailySeriesRow,
    load_daily_series_of,
    store_daily_series,
)
from decoder_service.shell.database import ServiceDatabase
from tests.decoder_service.live_collector import MONDAY, LiveCollector
from tests.decoder_service.support import BOTH_DATABASES, Running, running
from tests.decoder_service.test_pages import signed_in
from tests.end_to_end.browser import need_browser, open_browser, sideways, violations
from tests.waiting import until


def row(service: Running) -> DailySeriesRow:
    with service.service.database.read() as connection:
        return load_daily_series_of(connection, "homepage")


def jobs(service: Running) -> list[str]:
    with service.client("root") as root:
        found = root.get("/v1/jobs").json()["jobs"]
    return [job["operation"] for job in found]


def words(client: httpx.Client, *more: str) -> str:
    content = "\n".join([*(f"word-{i}" for i in range(12)), *more])
    name = f"words{len(more)}"
    answer = client.post(f"/v1/lists?name={name}", content=content.encode())
    return str(answer.json()["id"])


def decoded(service: Running) -> DailySeriesRow:
    """The row once its job is over."""

    def is_over() -> bool:
        service.service.tick()
        found = row(service)
        return found.job_id is None and bool(found.result_id or found.problem)

    until(is_over, 120, every=0.2)
    return row(service)


@pytest.fixture(scope="module")
def followed(
    collector: LiveCollector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A service with a worker, where an analyst has chosen the list of a metric of strings."""
    settings = {"tick_seconds": 0, "job_slots": 1, **collector.settings}
    url = f"sqlite:///{tmp_path_factory.mktemp('daily')}/d.sqlite"
    with running(url, **settings) as service:
        with signed_in(service, "ana") as ana:
            assert "needs list" in page(ana)
            given = {"list": words(ana)}
            assert ana.post("/metrics/homepage/daily", data=given).status_code == 303
        found = decoded(service)
        assert found.problem == ""
        yield service


def page(client: httpx.Client, path: str = "/metrics/homepage", status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return " ".join(unescape(answer.text).split())


def test_a_closed_day_is_decoded_once(followed: Running) -> None:
    before = jobs(followed)
    followed.service.tick()
    followed.service.tick()
    assert jobs(followed) == before == ["series"]


def test_analysts_see_charts_and_last_changes(followed: Running) -> None:
    with signed_in(followed, "ben") as ben:
        shown = page(ben)
        listed = page(ben, "/metrics")
    assert '<svg class="plot chart wide' in shown
    assert "95 % interval" in shown
    assert 'class="spark"' in listed
    assert "points" in listed
    with signed_in(followed, "vic") as vic:
        assert "chart wide" not in page(vic)
        assert 'class="spark"' not in page(vic, "/metrics")
        assert vic.get("/metrics/homepage/chart.csv").status_code == 404


def test_viewers_see_daily_series_while_released(followed: Running) -> None:
    result = row(followed).result_id
    with signed_in(followed, "root") as root, signed_in(followed, "vic") as vic:
        for released in ("1", "", "1", ""):
            root.post(f"/results/{result}/release", data={"released": released})
            shown = page(vic, "/metrics") + page(vic)
            assert ('class="spark"' in shown, "chart wide" in shown) == (bool(released),) * 2
            assert ("word-0" in shown) == bool(released)
            status = 200 if released else 404
            for path in ("/metrics/homepage/chart.svg", "/metrics/homepage/chart.csv",
                         f"/results/{result}", f"/v1/results/{result}"):  # fmt: skip
                assert vic.get(path).status_code == status, path


def test_other_analysts_see_found_values_alone(followed: Running) -> None:
    """The list stays its owner's; what the daily series found in it is for every analyst."""
    result = row(followed).result_id
    with signed_in(followed, "ben") as ben:
        names = [one["name"] for one in ben.get(f"/v1/results/{result}").json()["files"]]
        texts = [ben.get(f"/v1/results/{result}/files/{name}").text for name in names
                 if name.endswith((".json", ".csv", ".html"))]  # fmt: skip
        texts += [page(ben), page(ben, f"/results/{result}"), page(ben, "/lists")]
        path = f"/v1/results/{result}/files/results.json"
        found = {one["string"] for one in ben.get(path).json()["changes"]}
    hidden = {f"word-{number}" for number in range(12)} - found
    assert found
    assert hidden
    assert "words0" not in texts[-1]
    for word in hidden:
        assert not any(re.search(rf"{word}\b", text) for text in texts), word


def test_only_an_admin_switches_it_off_and_on(followed: Running) -> None:
    with signed_in(followed, "ana") as ana:
        off = {"enabled": "0", "list": row(followed).list_id}
        assert ana.post("/metrics/homepage/daily", data=off).status_code == 403
    with signed_in(followed, "root") as root:
        assert root.post("/metrics/homepage/daily", data=off).status_code == 303
        assert "an admin switched it off" in page(root)
        before = jobs(followed)
        followed.service.tick()
        assert jobs(followed) == before
        with signed_in(followed, "ana") as ana:
            on = {"list": row(followed).list_id}
            assert ana.post("/metrics/homepage/daily", data=on).status_code == 403
        assert root.post("/metrics/homepage/daily", data=off | {"enabled": "1"}).status_code == 303
    assert decoded(followed).enabled


def test_nobody_takes_the_name_of_the_service(followed: Running) -> None:
    with followed.client("root") as root:
        answer = root.post("/v1/keys", json={"name": "decoder-service", "role": "viewer"})
    assert answer.status_code == 422


def test_charts_are_read_by_keys_and_saved(followed: Running, tmp_path: Path) -> None:
    """In a browser, under the policy of the service; axe finds nothing in either theme."""
    need_browser()
    with open_browser() as browser:
        for theme, width in (("light", 1280), ("dark", 390)):
            context = browser.new_context(
                viewport={"width": width, "height": 800}, color_scheme=theme
            )
            tab = context.new_page()
            problems: list[str] = []
            tab.on("console", lambda said, told=problems: told.append(said.text))
            tab.goto(f"{followed.url}/sign-in")
            tab.fill("input[name=key]", followed.keys["ana"])
            tab.click("button[type=submit]")
            tab.goto(f"{followed.url}/metrics/homepage")
            assert violations(tab) == []
            assert sideways(tab) <= 0
            assert tab.locator(".bar").bounding_box()["height"] <= 110  # an eighth of a phone
            tab.locator("svg.chart:visible").first.focus()
            tab.keyboard.press("ArrowRight")
            assert "word-0: " in tab.inner_text("#reading")
            tab.keyboard.press("Escape")
            assert tab.locator("#reading").is_hidden()
            with tab.expect_download() as saved:
                tab.click("#png")
            saved.value.save_as(tmp_path / "chart.png")
            content = (tmp_path / "chart.png").read_bytes()
            assert content.startswith(b"\x89PNG")
            assert int.from_bytes(content[16:20], "big") == 1920
            tab.select_option("select[name=scale]", "log")
            tab.wait_for_url("**scale=log**")
            assert problems == []
            context.close()


@BOTH_DATABASES
def test_of_two_processes_one_changes_a_row(database: ServiceDatabase) -> None:
    first = DailySeriesRow("homepage")
    queued = replace(first, asked="1" * 64, job_id="2" * 16)
    with database.change() as connection:
        assert store_daily_series(connection, first, queued)
    with database.change() as connection:
        assert not store_daily_series(connection, first, replace(first, asked="3" * 64))
        assert store_daily_series(connection, queued, replace(queued, job_id=None))
    with database.read() as connection:
        assert load_daily_series_of(connection, "homepage") == replace(queued, job_id=None)
        assert load_daily_series_of(connection, "other") == DailySeriesRow("other")


def test_the_address_says_values_days_and_axis(followed: Running) -> None:
    day = MONDAY.isoformat()
    with signed_in(followed, "ana") as ana:
        text = ana.get(f"/metrics/homepage/chart.csv?value=word-0&from={day}&to={day}").text
        (found,) = csv.DictReader(io.StringIO(text))
        assert (found["first_day"], found["string"]) == (day, "word-0")
        picture = ana.get("/metrics/homepage/chart.svg?scale=log&value=word-0")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert ">100 %</text>" in picture.text
        assert ">0 %</text>" not in picture.text
        unknown = page(ana, "/metrics/homepage?value=nothere")
        assert "nothere was not found in this series" in unknown
        assert "scale 'round' is not one of" in page(ana, "/metrics/homepage?scale=round", 422)
        assert "no window of the series" in page(ana, "/metrics/homepage?from=2030-01-01", 422)
