"""The static pages in a real browser: every width, both themes, print, keyboard, strict policy."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

from decoder import Candidates, DecodeOptions, decode
from decoder.comparison.windows import decode_over_time
from decoder.density.cells import places_of
from decoder.density.maps import Density, DensityOptions, estimate_density
from decoder.discovery.discovery import discover
from decoder.kinds.discover import discovery_result
from decoder.kinds.interface import decoder_of
from decoder.kinds.over_time import comparison
from decoder.kinds.result import Question
from decoder.kinds.run import decode_counts, in_memory, kind_of, render_page
from decoder.kinds.values import decoding_result, values_series
from decoder.options import Operation
from decoder.progress import quiet, silent
from rappor_core.aggregate import Aggregate
from rappor_core.metrics.file import parse_metrics
from simulations.populations.draws import draw_aggregate
from tests.discovery_support import falling_shares, site_names, small_metric
from tests.end_to_end.browser import THEMES, WIDTHS, kept, need_browser, sideways, violations
from tests.map_pages import render_maps
from tests.metric_texts import declaration
from tests.number_draws import metric_of
from tests.number_populations import POPULATIONS
from tests.number_support import Fleet
from tests.pair_support import drawn_pairs
from tests.prefix_draws import StringPopulation

WORD = declaration(
    "word", "string", owner="web@example.org", expires="2099-12-31", num_bits=64,
    num_hashes=2, num_cohorts=16, epsilon_infinity=4.0, epsilon_one=3.0,
    max_memoized_values=3, fallback="other",
)  # fmt: skip
PLACES = declaration(
    "places", "location", expires="2099-12-31", grid="square", box=[40.6, -74.1, 40.9,
    -73.8], rows=4, columns=4, levels=[0], slots=["night 22-6", "day 6-22"], period="week",
    mode="memo", encoding="symbol", num_symbols=2, num_cohorts=8, epsilon_infinity=3.0,
    epsilon_one=2.0,
)  # fmt: skip
HOSTILE = "<script>alert(1)</script>"
LONG = "https://www.example.org/a/very/long/address/that/does/not/end/soon?with=parameters&more"
VALUES = [LONG, "half of it", HOSTILE, "\u202egnp.exe", *map(str, range(20))]
SHARES = np.array([0.3, 0.5, 0.1, 0.05] + [0.05 / 20] * 20)


def weeks(number: int) -> list[Aggregate]:
    metric, rng = parse_metrics(WORD).metrics["word"], np.random.default_rng(1)
    drawn = []
    for week in range(number):
        one, _ = draw_aggregate(VALUES, SHARES, 40_000, metric.params, rng, "word")
        first = date(2026, 9, 7) + timedelta(days=7 * week)
        drawn.append(
            replace(one, definition=metric.to_dict(), params_id=metric.params_id,
                    first_day=first, last_day=first + timedelta(days=6))
        )  # fmt: skip
    return drawn


def spots(number: int) -> Iterator[Aggregate]:
    """Counts of weeks of places, of each slot."""
    rng = np.random.default_rng(2)
    for part in parse_metrics(PLACES).parts("places"):
        values = places_of([part.location]).finest
        shares = np.arange(len(values), 0.0, -1) ** 2
        for week in range(number):
            one, _ = draw_aggregate(
                list(values), shares / shares.sum(), 20_000, part.params, rng, part.name
            )
            day = date(2026, 9, 13) + timedelta(days=7 * week)
            yield replace(one, definition=part.to_dict(), params_id=part.params_id,
                          first_day=day, last_day=day)  # fmt: skip


@cache
def maps(number: int) -> list[Density]:
    return [estimate_density([one], DensityOptions("simplex")) for one in spots(number)]


def rendered(counts: Sequence[Aggregate], operation: Operation = "decode") -> str:
    """The page that a command writes of counts."""
    result = decode_counts(operation, [counts], Question(), silent, quiet)
    return render_page(kind_of(counts), in_memory(result, operation))


def joint_page() -> str:
    """A table of 10 x 24 values, of which some are long, and a tenth of the cells frequent."""
    values = {"page": [LONG, HOSTILE, *(f"page {i}" for i in range(8))]}
    values["language"] = [f"language {i}" for i in range(24)]
    noise = {"mechanism": "l-osue", "epsilon_infinity": 8.0, "epsilon_one": 5.0}
    kept = {"max_memoized_values": 2, "fallback": "page 0 | language 0"}
    text = declaration("pages", "pair", of=list(values), values=values, **noise, **kept)
    metric, rng = parse_metrics(text).metrics["pages"], np.random.default_rng(3)
    shares = rng.random((10, 24)) ** 12
    found = drawn_pairs(metric, shares / shares.sum(), 200_000, rng)
    return rendered([found])


def numbers_page() -> str:
    """Three weeks of one fleet, whose numbers double in the last."""
    population, rng = POPULATIONS[0], np.random.default_rng(4)
    fleet = Fleet.make(metric_of(population, 4.0), 60_000, rng)
    numbers = population.draw(rng, 60_000)
    windows = [fleet.report(numbers * (1 + (week == 2)), week) for week in range(3)]
    return rendered(windows, "series")


def discovery_page() -> str:
    """Found strings, of which one is replaced by text that would steer a page."""
    metric, rng = small_metric(), np.random.default_rng(5)
    population = StringPopulation.of(metric, site_names(200))
    aggregate, _ = population.draw(falling_shares(200), 300_000, rng)
    discovery = discover(aggregate)
    first, second, *rest = discovery.found
    hostile = (replace(first, string=f"\u202e{HOSTILE}", whole=False),
               replace(second, string=LONG), *rest)  # fmt: skip
    result = discovery_result(replace(discovery, found=hostile))
    return render_page(decoder_of("discover"), in_memory(result, "decode"))


def report_page() -> str:
    known = dict(zip(VALUES, SHARES.tolist(), strict=True))
    listed, options = Candidates.from_strings(VALUES), DecodeOptions(true_shares=known)
    result = decoding_result(decode(weeks(1)[0], listed, options))
    return render_page(decoder_of("string"), in_memory(result, "decode"))


def series_page() -> str:
    found = decode_over_time(weeks(3), Candidates.from_strings(VALUES))
    result = values_series(found, DecodeOptions())
    return render_page(decoder_of("string"), in_memory(result, "series"))


def compare_page() -> str:
    found = decode_over_time(weeks(2), Candidates.from_strings(VALUES))
    result = comparison(values_series(found, DecodeOptions()))
    return render_page(decoder_of("string"), in_memory(result, "compare"))


def density_page() -> str:
    return render_maps(maps(3))


Pages = Callable[[str], str]
PAGES = {"report": report_page, "series": series_page, "compare": compare_page,
         "density": density_page,
         "numbers": numbers_page, "joint": joint_page, "found": discovery_page}  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """The URL of a page, which is made when it is first asked for, by one process of all."""
    need_browser()
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "report-pages"
    folder.mkdir(exist_ok=True)

    def address(name: str) -> str:
        path, own = folder / f"{name}.html", folder / f"{name}-{os.getpid()}"
        if not path.exists():
            own.write_text(PAGES[name](), encoding="utf-8")
            own.replace(path)
        return path.as_uri()

    return address


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_window_in_both_themes(name: str, pages: Pages, browser: Any) -> None:
    for theme in THEMES:
        page = browser.new_page(color_scheme=theme)
        said: list[str] = []
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.goto(pages(name))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert sideways(page) <= 0, (width, theme)
            kept(page, f"{name}-{width}-{theme}")
            if (width, theme) in ((390, "light"), (1280, "dark")):
                assert violations(page) == [], (width, theme)
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 128) == (theme == "dark")
        assert said == []
        page.close()


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_printed_light_and_whole(name: str, pages: Pages, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="dark")
    page.goto(pages(name))
    if name == "joint":
        assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 1000})
    assert sideways(page) <= 0
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert sum(map(int, ink[4:-1].split(","))) < 128
    page.close()
