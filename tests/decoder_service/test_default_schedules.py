"""Schedules of series, those that the service makes, and the chart on a metric's page."""

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from decoder_service.people.permissions import SERVICE_ID
from decoder_service.results.rules import give_up
from decoder_service.schedules.rules import load_schedules
from decoder_service.schedules.windows import delete_window, load_windows, spec_of_schedule
from decoder_service.shell.database import save
from decoder_service.shell.models import ScheduleRow, WindowRow, WindowState
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY, WORDS
from tests.decoder_service.support import (
    Running,
    as_listed,
    keep_result,
    result_row,
    running,
    store_list,
    text_of,
)
from tests.decoder_service.test_pages import signed_in
from tests.end_to_end.browser import need_browser, open_browser, sideways, violations


def window(service: Running) -> WindowRow:
    with service.service.database.reading() as db:
        (schedule,) = load_schedules(db, ScheduleRow.metric == "homepage")
        (found,) = load_windows(db, schedule.id)
    return found


def jobs(service: Running) -> list[str]:
    with service.client("root") as root:
        found = root.get("/v1/jobs").json()["jobs"]
    return [job["operation"] for job in found]


def decoded(service: Running, folder: Path) -> WindowRow:
    service.service.tick()
    assert do_jobs(service.service, folder) == 1
    service.service.tick()
    return window(service)


@pytest.fixture(scope="module")
def followed(collector, tmp_path_factory) -> Iterator[Running]:
    """A service where an analyst has made a series of a metric of strings."""
    settings = {"tick_seconds": 0, **collector.settings}
    folder = tmp_path_factory.mktemp("daily")
    url = f"sqlite:///{folder}/d.sqlite"
    with running(url, **settings) as service:
        with signed_in(service, "ana") as ana:
            listed = ana.get("/v1/metrics").json()["metrics"]
            assert [one["name"] for one in listed] == ["homepage"]
            form = page(ana, "/schedules/new?metric=homepage&operation=series&every=day")
            assert "<option selected>series</option>" in form
            given = {"name": "by day", "metric": "homepage", "every": "day", "operation": "series"}
            words = store_list(ana, "words", "\n".join(WORDS))["id"]
            assert ana.post("/schedules", data=given | {"list": words}).status_code == 303
        assert decoded(service, folder).state == WindowState.DONE
        yield service


def page(client: httpx.Client, path: str = "/metrics/homepage", status: int = 200) -> str:
    return text_of(client.get(path), status)


def test_viewers_see_a_series_while_released(followed: Running) -> None:
    result = window(followed).result_id
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


def test_a_new_day_replaces_the_series(followed: Running, tmp_path: Path) -> None:
    """The result of the day before is shown until the new one is there, then it is given up."""
    with followed.service.database.reading() as db:
        (schedule,) = load_schedules(db, ScheduleRow.metric == "homepage")
    first, old = window(followed), "e" * 16
    keep_result(followed, result_row(old, operation="series"), {}, "ana")
    with followed.service.database.writing() as db:  # as if one day less had been closed
        assert delete_window(db, first)
        save(db, replace(first, last_day=first.first_day, result_id=old))
    followed.service.tick()
    assert window(followed).result_id == old
    found = decoded(followed, tmp_path)
    assert (found.state, found.last_day) == (WindowState.DONE, first.last_day)
    assert found.result_id == first.result_id
    with followed.service.database.reading() as db:
        assert not give_up(db, old, schedule.owner)


def test_the_service_follows_metrics_with_declared_values(followed: Running) -> None:
    service = followed.service
    (homepage,) = as_listed(followed)
    definition = {**homepage["definition"], "kind": "number"}
    listed = [homepage, {**homepage, "name": "theme", "definition": definition}]
    service.schedules.add_defaults(listed)
    service.schedules.add_defaults(listed)
    with service.database.reading() as db:
        (made,) = load_schedules(db, ScheduleRow.owner == SERVICE_ID)
    assert (made.name, made.every, made.enabled) == ("theme by day", "day", True)
    assert spec_of_schedule(made).operation == "series"
    with signed_in(followed, "ana") as ana, signed_in(followed, "root") as root:
        assert ana.post(f"/schedules/{made.id}/enable").status_code == 404
        answer = root.post(f"/schedules/{made.id}/delete", data={"sure": "1"})
        assert (answer.status_code, "pause it" in answer.text) == (422, True)
        assert root.post(f"/schedules/{made.id}/enable").status_code == 303
    with service.database.reading() as db:
        enabled = load_schedules(db, ScheduleRow.enabled.is_(True))
    assert made.id not in {one.id for one in enabled}


@pytest.mark.long
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
            tab.on("console", lambda said, reply=problems: reply.append(said.text))
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
        assert "nothere is not in this series" in unknown
        assert "scale: Input should be" in page(ana, "/metrics/homepage?scale=round", 422)
        assert "no window of the series" in page(ana, "/metrics/homepage?from=2030-01-01", 422)


def test_nobody_takes_the_name_of_the_service(followed: Running) -> None:
    with followed.client("root") as root:
        answer = root.post("/v1/keys", json={"name": "decoder-service", "role": "viewer"})
    assert answer.status_code == 422
