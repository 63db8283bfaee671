"""The service in a real browser: what an analyst does in a week, from the key to signing out."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.decoder_service.in_process import do_jobs
from tests.decoder_service.live_collector import MONDAY, WORDS, live_collector
from tests.decoder_service.support import (
    ALARM_URLS,
    SLOW,
    Running,
    running,
    submit,
    upload,
    workers,
)
from tests.decoder_service.test_flow_results import week as flow_week
from tests.decoder_service.test_kinds import startup
from tests.end_to_end.browser import THEMES, kept, need_browser, open_browser, sideways, violations
from tests.end_to_end.test_report_pages import LONG, WORD, spots

pytestmark = pytest.mark.long
WIDTHS = (390, 768, 1280)
HOSTILE = '<img src=x onerror="document.title=1">'
VALUES = ["steady", "rising", HOSTILE, "a\u202egnp.exe", LONG, *map(str, range(10))]


def week(number: int) -> Aggregate:
    metric, rng = parse_metrics(WORD).metrics["word"], np.random.default_rng(number)
    weights = np.array([6.0, 2.0 + 3 * number, 1.0, 0.8, 0.8] + [0.05] * 10)
    one, _ = draw_aggregate(VALUES, weights / weights.sum(), 60_000, metric.params, rng, "word")
    first = date(2026, 11, 2) + timedelta(days=7 * number)
    return replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                   first_day=first, last_day=first + timedelta(days=6))  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    need_browser()
    folder = tmp_path_factory.mktemp("service")
    database = f"sqlite:///{folder}/decoder.sqlite"
    with running(database) as one, workers(database, folder):
        yield one


@pytest.fixture
def page(service: Running) -> Iterator[Any]:
    """A page that is signed in as ana; what the console says is an error."""
    with signed_in_page(service) as one:
        yield one


@contextmanager
def signed_in_page(service: Running, name: str = "ana") -> Iterator[Any]:
    with open_browser() as browser:
        page = browser.new_context(accept_downloads=True).new_page()
        page.set_default_timeout(120_000)
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.goto(service.url + "/metrics")
        page.fill("#key", service.keys[name])
        page.click("main button")
        page.wait_for_url("**/metrics")
        yield page


def start(
    page: Any,
    url: str,
    operation: str,
    wanted: list[str],
    kind: str = "string",
    *,
    listed: bool = True,
    **more: str,
) -> None:
    """Fill the form of a job and send it. listed: with the first list, if the kind takes one."""
    page.goto(f"{url}/jobs/new?kind={kind}&operation={operation}")
    page.select_option("select[name=aggregates]", wanted)
    if more:
        page.click("text=Advanced")
    for name, value in more.items():
        page.fill(f"input[name={name}]", value)
    if listed and "numbers" not in more:
        choose_list(page)
    page.click("main button.primary")
    page.wait_for_url("**/jobs/*")


def choose_list(page: Any) -> None:
    """The first list that a form offers, if it takes one."""
    if page.locator("select[name=list] option").count() > 1:
        page.select_option("select[name=list]", index=1)


def open_result(page: Any) -> str:
    """Wait for the job of the page; its result's id."""
    page.click("text=Open the result")
    page.wait_for_url("**/results/*")
    return str(page.url).rpartition("/")[2]


def test_a_week_of_an_analyst(service: Running, page: Any, tmp_path: Path) -> None:
    url = service.url
    with service.client("ana") as client:
        old, new = (upload(client, week(n).to_json().encode()) for n in (0, 1))
        maps = [upload(client, one.to_json().encode()) for one in spots(2)]
    page.goto(url + "/lists")
    path = tmp_path / "words.txt"
    path.write_text("\n".join([*VALUES, *(f"none{i}" for i in range(300))]), encoding="utf-8")
    page.fill("form[action='/lists'] input[name=name]", f"words {HOSTILE}")
    page.set_input_files("form[action='/lists'] input[type=file]", str(path))
    page.click("text=Save list")
    page.wait_for_url("**/lists/*")
    assert "315 values" in page.inner_text("main")
    where = page.url.removeprefix(url)

    start(page, url, "decode", [old], numbers=":".join(map(str, SLOW["numbers"])))
    page.wait_for_selector("#state.running")  # the script of the page asks each second
    page.locator("#stage", has_not_text="waiting").wait_for()
    page.click("text=Cancel")
    page.wait_for_selector("#state.cancelled")
    assert "cancelled" in page.inner_text("main")

    start(page, url, "decode", [old])
    first = open_result(page)
    shown = page.inner_text("main")
    assert HOSTILE in shown
    assert "\u202e" not in page.content()
    assert page.title() != "1"
    start(page, url, "decode", [new])
    second = open_result(page)
    with page.expect_download() as download:
        page.click("text=results.csv")
    assert Path(download.value.path()).read_text(encoding="utf-8").startswith('"string",')
    page.fill("main input[name=q]", "RISING")
    page.click("main form[role=search] button")
    assert page.locator("#table tbody tr").count() == 1
    page.click("text=Show all candidates")
    assert "sort=" in page.url

    page.goto(f"{url}/compare?before={first}&after={second}")
    page.click("text=Compute the difference")
    compared = open_result(page)
    assert page.inner_text("#table tbody tr:not(.group) >> nth=0").split()[0] == "rising"
    start(page, url, "series", [old, new])
    series = open_result(page)
    start(page, url, "decode", maps, "location")
    density = open_result(page)
    page.wait_for_selector("#maps .leaflet-cells-pane canvas")
    with service.client("ana") as client:
        seconds = [upload(client, startup(n, above)) for n, above in enumerate((0.3, 0.7))]
    start(page, url, "decode", seconds[:1], "number")
    number = open_result(page)
    start(page, url, "series", seconds, "number", listed=False)
    numbers = open_result(page)
    assert "at or above 4 s" in page.inner_text("main")
    assert page.said == []
    results = [first, compared, series, density, number, numbers]
    more = [f"/compare?before={density}&after={density}", where]
    every_page_fits(page, url, [*PAGES, *(f"/results/{one}" for one in results), *more])
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(url + "/jobs")
    display = "one => getComputedStyle(one).display"
    assert page.locator("td[data-name=State]").first.evaluate(display) == "flow-root"
    page.click("nav >> text=Read")
    page.click("nav >> text=Results")
    page.wait_for_url("**/results")
    page.click("text=Sign out")
    page.wait_for_url("**/sign-in")
    page.goto(url + f"/results/{first}")
    assert "/sign-in?next=" in page.url


PAGES = ["/metrics", "/metrics/word", "/lists", "/jobs", "/jobs/new", "/results", "/compare"]
PAGES += ["/dictionary", "/jobs/new?kind=location", "/jobs/new?kind=number"]


def every_page_fits(page: Any, url: str, paths: list[str], name: str = "") -> None:
    """No page scrolls sideways, and axe has nothing to say, in three widths and both themes."""
    for number, path in enumerate(paths):
        page.goto(url + path)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                assert sideways(page) <= 0, (path, width)
                assert links_out_of_sight(page) == 0, (path, width)
                assert page.locator(".bar").bounding_box()["height"] < 64, (path, width)
                assert drawn_twice(page) == 0, (path, width)
                kept(page, f"{name}{number}-{width}-{theme}")
            assert violations(page) == [], (path, theme)


def drawn_twice(page: Any) -> int:
    """How many drawings for wide pages are seen alongside those for narrow ones."""
    shown = [page.locator(f".plot.{one}:visible").count() for one in ("wide", "narrow")]
    return min(shown)


def links_out_of_sight(page: Any) -> int:
    """How many links of the navigation are beyond the window, to be scrolled to."""
    found: int = page.evaluate(
        "[...document.querySelectorAll('.bar a')]"
        ".filter(link => link.getBoundingClientRect().right > innerWidth).length"
    )
    return found


def test_a_schedule_in_a_browser(tmp_path: Path) -> None:
    need_browser()
    days = {MONDAY + timedelta(days=n): {"word-0": 500, f"word-{n}": 500} for n in (1, 2)}
    with (
        live_collector(tmp_path, days) as collector,
        running(
            f"sqlite:///{tmp_path}/d.sqlite",
            tick_seconds=0,
            alarm_urls=ALARM_URLS,
            **collector.settings,
        ) as served,
        signed_in_page(served) as page,
    ):
        with served.client("ana") as client:
            client.post("/v1/lists?name=words", content="\n".join(WORDS).encode())
        page.click("nav >> text=Schedules")
        assert "No schedules yet" in page.inner_text("main")
        page.click("text=New schedule")
        page.fill("input[name=name]", f"words by day {HOSTILE}")
        page.fill("input[name=metric]", "homepage")
        page.select_option("select[name=every]", "day")
        choose_list(page)
        page.click("text=Create schedule")
        page.wait_for_selector("text=No windows yet")
        where = page.url.removeprefix(served.url)
        page.fill("form[action*='/alarms'] input[name=name]", "on call")
        page.check("input[name=new_value]")
        page.click("text=Create alarm")
        page.wait_for_selector("td >> text=hidden")
        served.service.tick()
        do_jobs(served.service, tmp_path)
        served.service.tick()
        page.goto(served.url + where)
        assert "Alerts sent" in page.inner_text("main")
        assert page.locator("td .state.done").count() == 2
        assert "on call" in page.inner_text("main")
        assert HOSTILE in page.inner_text("h1")
        every_page_fits(page, served.url, ["/schedules", where, f"{where}/edit"], "schedule-")
        assert page.said == []


def test_admin_and_flow_pages_work_in_a_browser(tmp_path: Path) -> None:
    need_browser()
    with (
        running(f"sqlite:///{tmp_path}/d.sqlite", tick_seconds=0) as served,
        signed_in_page(served, "root") as page,
    ):
        with served.client("root") as client:
            sha = upload(client, flow_week(0))
            job = submit(client, {"source": {"aggregates": [sha]}})
            assert do_jobs(served.service, tmp_path) == 1
            result = client.get(f"/v1/jobs/{job}").json()["result_id"]
        paths = ["/keys", "/audit", "/releases", "/jobs/new?kind=flow"]
        every_page_fits(page, served.url, [*paths, f"/jobs/{job}", f"/results/{result}"], "admin-")
        assert page.said == []
        every_page_fits(page, served.url, ["/nowhere"], "none-")
