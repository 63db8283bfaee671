"""Speed of the pages: a table of ten thousand rows, a step of a map's slider, a map beside plotly.

1. A result of the decoder service, every candidate on one page of 10,000 rows, over HTTP from a
   service in this process: time of the clock and of the processor.
2. A map of 4,032 cells and 60 windows in headless Chromium without a graphics card: from one step
   of the slider to the frame after which the next can be taken. Needs Chromium and playwright.
3. One window of the same map beside a page of plotly (`go.Choropleth` of the same cells, its script
   in the page, as ours): bytes of the file, time of the page's thread until the map is drawn, and
   a step of a drag. Needs plotly, too (pip install plotly).

Usage: python benchmarks/pages.py [--repeats 15] [--part table|map|rival] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from _run import Comparison, run

from decoder.output.basemap import bundled_source
from decoder.output.density_html import view_of
from decoder.output.jinja import page_template
from decoder.output.map_data import map_json
from decoder.output.palette import DETECTED_FROM, UNDETECTED_STEPS, UNDETECTED_TO
from rappor_core.metrics.file import parse_metrics

ROWS, COLUMNS, WINDOWS, PASSES, RIVAL_ROUNDS = 63, 64, 60, 7, 5
UNIT = 1e-7
STEPS = f"a step of a map's slider, {ROWS * COLUMNS:,} cells, {WINDOWS} windows, the page's thread"
STEP = """async () => {
  const slider = document.getElementById("time"), frame = () => new Promise(requestAnimationFrame);
  const steps = [];
  for (let i = 0; i < Number(slider.max); i++) {
    const start = performance.now();
    slider.value = i;
    slider.dispatchEvent(new Event("input"));
    await frame();
    steps.push(performance.now() - start);
  }
  return steps;
}"""  # the page draws in the frame that it asked for before this one asks


def table(repeats: int) -> Comparison:
    """Part 1."""
    from tests.decoder_service.support import running
    from tests.decoder_service.test_pages import decoded, many, signed_in, stored

    with tempfile.TemporaryDirectory() as folder:
        files, summary = decoded(Path(folder), 0)
        files["candidates.parquet"] = many(files["candidates.parquet"])
        with running(f"sqlite:///{folder}/decoder.sqlite") as service:
            result = stored(service, 1, files, summary)
            with signed_in(service, "ana") as client:
                return timed(client, f"/results/{result}?all=1&rows=10000&sort=-share", repeats)


def timed(client: httpx.Client, path: str, repeats: int) -> Comparison:
    """The times of a page."""
    walls, processors, size = [], [], 0
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        size = len(client.get(path).raise_for_status().content)
        walls.append(time.perf_counter() - wall)
        processors.append(time.process_time() - processor)
    return Comparison(
        "", "a page of 10,000 rows over HTTP, service and client", "s", tuple(processors),
        target=0.3, note=f"{size / 1e6:.2f} MB; by the clock {statistics.median(walls):.3f} s, "
        f"best {min(walls):.3f}",
    )  # fmt: skip


def places() -> dict[str, Any]:
    """The data of a map of squares, in the form of `map_data`."""
    rng = np.random.default_rng(1)
    lon, lat = np.linspace(-74.3, -73.6, COLUMNS + 1), np.linspace(40.45, 41.0, ROWS + 1)
    cells = [
        [[lon[c], lat[r]], [lon[c + 1], lat[r]], [lon[c + 1], lat[r + 1]], [lon[c], lat[r + 1]]]
        for r in range(ROWS)
        for c in range(COLUMNS)
    ]
    maps = [one_map(number, rng) for number in range(WINDOWS)]
    names = ("land", "lakes", "coast", "borders", "rivers", "cities")
    return {
        "cells": np.round(cells, 5).tolist(),
        "names": [f"0-{r}-{c}" for r in range(ROWS) for c in range(COLUMNS)],
        "points": [],
        "maps": maps,
        "called": {},
        "first": maps[-1]["window"],
        "level": 0.95,
        "unit": UNIT,
        "top": 0.01,
        "scale": {
            "detected_from": DETECTED_FROM,
            "undetected_to": UNDETECTED_TO,
            "undetected_steps": UNDETECTED_STEPS,
        },
        "around": {name: [] for name in names},
        "base": {"lines": [], "areas": [], "points": []},
        "texts": {"promise": "", "grid": "", "level": "95 %", "notes": [],
                  "source": bundled_source()},
    }  # fmt: skip


def one_map(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """A window: shares that fall off from a centre, half of the cells detected."""
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    near = np.exp(-((row - 30) ** 2 + (column - 10 - number * 0.7) ** 2) / 200)
    shares = np.rint(near / near.sum() / UNIT).astype(int)
    return {
        "slot": "night 22-6",
        "window": f"week {number}",
        "reports": 1_000_000,
        "detectable_share": 1e-4,
        "other": 0.1,
        "unlisted": 0.0,
        "share": shares.tolist(),
        "low": (shares // 2).tolist(),
        "high": (shares * 2).tolist(),
        "estimate": shares.tolist(),
        "shade": rng.integers(0, 256, len(shares)).tolist(),
        "detected": np.flatnonzero(rng.random(len(shares)) < 0.5).tolist(),
        "source": "",
        "changed": {},
    }


def lacking(name: str, *packages: str) -> Comparison | None:
    """A line that says what is not there; None where nothing is missing."""
    if CHROMIUM is None:
        return Comparison("", name, note="not run: no Chromium here (apt-get install chromium)")
    for package in ("playwright", *packages):
        if find_spec(package) is None:
            return Comparison("", name, note=f"not run: no {package} (pip install {package})")
    return None


@contextmanager
def opened() -> Iterator[Any]:
    """A browser without a graphics card."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def our_page(data: dict[str, Any]) -> str:
    """density.html of the data."""
    return page_template("density.html.j2").render(
        metric=METRIC, data=map_json(data), data_url=None, **view_of(data)
    )


def slider() -> Comparison:
    """Part 2."""
    missing = lacking(STEPS)
    if missing is not None:
        return missing
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        path = Path(folder) / "map.html"
        path.write_text(our_page(places()), encoding="utf-8")
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("#maps canvas")
        clock = counting(page)
        before = thread_seconds(clock)
        passes = [page.evaluate(STEP) for _ in range(PASSES)]
        spent = thread_seconds(clock) - before
    medians = sorted(map(statistics.median, passes))
    return Comparison(
        "", STEPS, "ms", (1000 * spent / sum(map(len, passes)),), target=33.0,
        note=f"by the clock, medians of {PASSES} passes, {medians[0]:.1f} to {medians[-1]:.1f} ms",
    )  # fmt: skip


def counting(page: Any) -> Any:
    """A session that reads the processor time of a page's main thread."""
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable", {"timeDomain": "threadTicks"})
    return clock


def plotly_page(data: dict[str, Any]) -> str:
    """The same cells and shares by plotly, whole in one file."""
    from plotly import graph_objects

    (shown,) = data["maps"]
    features = [
        {"type": "Feature", "id": name, "properties": {},
         "geometry": {"type": "Polygon", "coordinates": [[*ring[::-1], ring[-1]]]}}
        for name, ring in zip(data["names"], data["cells"], strict=True)
    ]  # fmt: skip
    figure = graph_objects.Figure(
        graph_objects.Choropleth(
            geojson={"type": "FeatureCollection", "features": features},
            locations=data["names"],
            z=[share * data["unit"] for share in shown["share"]],
            marker_line_width=0,
        )
    )
    figure.update_geos(fitbounds="locations", visible=False)
    figure.update_layout(dragmode="pan", width=1240, height=800)
    text = str(figure.to_html(include_plotlyjs=True, full_html=True))
    return text.replace("<head>", f"<head><script>{NO_COASTS}</script>", 1)


def drawn(browser: Any, path: Path, key: str) -> tuple[float, float]:
    """Milliseconds of the page's thread until a map is drawn, and for a step of a drag. key: whose
    page it is. Ends the benchmark where the drag moved nothing."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(300_000)
    clock = counting(page)
    before = thread_seconds(clock)
    page.goto(path.as_uri(), wait_until="load")
    page.wait_for_function(READY[key])
    page.evaluate(FRAMES)
    begun, place = thread_seconds(clock), page.evaluate(WHERE[key])
    box = page.locator(SURFACE[key]).first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(DRAGS):
        page.mouse.move(x + 4 * step, y + 2 * step)
        page.evaluate(FRAMES)
    page.mouse.up()
    page.evaluate(FRAMES)
    dragged = thread_seconds(clock) - begun
    if page.evaluate(WHERE[key]) == place:
        raise SystemExit(f"the map of {key} was not moved by a drag")
    page.close()
    return 1000 * (begun - before), 1000 * dragged / DRAGS


def rival(rounds: int) -> Iterator[Comparison]:
    """Part 3."""
    missing = lacking(f"a map of {ROWS * COLUMNS:,} cells beside plotly", "plotly")
    if missing is not None:
        yield missing
        return
    data = places()
    data |= {"maps": data["maps"][-1:]}
    name = f"one map of {ROWS * COLUMNS:,} cells"
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        pages = {"ours": our_page(data), "plotly": plotly_page(data)}
        for key, text in pages.items():
            (Path(folder) / f"{key}.html").write_text(text, encoding="utf-8")
        times: dict[str, list[tuple[float, float]]] = {key: [] for key in pages}
        for number in range(rounds + 1):
            for key in pages:
                found = drawn(browser, Path(folder) / f"{key}.html", key)
                if number:  # the first of each fills caches
                    times[key].append(found)
    sizes = {key: (len(text.encode()) / 1e6,) for key, text in pages.items()}
    yield Comparison("", f"{name}: size of the page", "MB", sizes["ours"], "plotly",
                     sizes["plotly"], target=5.0)  # fmt: skip
    said = ("until it is drawn, the page's thread", "a step of a drag, the page's thread")
    for part, text in enumerate(said):
        ours, theirs = ([one[part] for one in times[key]] for key in ("ours", "plotly"))
        yield Comparison("", f"{name}: {text}", "ms", tuple(ours), "plotly", tuple(theirs),
                         target=2.0)  # fmt: skip


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DRAGS = 40
NO_COASTS = (  # plotly would fetch them from its host, and draw nothing without them
    'window.PlotlyGeoAssets = {topojson: {world_110m: {type: "Topology", objects: {}, arcs: []}}}'
)
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
READY = {
    "ours": "document.querySelectorAll('#maps canvas').length === 1",
    "plotly": f"document.querySelectorAll('.choroplethlayer path').length >= {ROWS * COLUMNS}",
}
WHERE = {  # changes as the map is moved
    "ours": "location.hash",
    "plotly": "document.querySelector('.choroplethlayer path').getAttribute('d')",
}
SURFACE = {"ours": "#maps canvas", "plotly": ".js-plotly-plot"}


def thread_seconds(clock: Any) -> float:
    """Processor time of the page's main thread."""
    found = {one["name"]: one["value"] for one in clock.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


METRIC = parse_metrics("""
[metrics.places]
kind = "location"
description = "Made for this benchmark"
owner = "bench@example.org"
expires = 2099-12-31
grid = "square"
box = [40.45, -74.3, 41.0, -73.6]
rows = 63
columns = 64
levels = [0]
slots = ["night 22-6"]
mode = "memo"
encoding = "symbol"
num_symbols = 8
num_cohorts = 64
epsilon_infinity = 4.0
epsilon_one = 3.0
""").parts("places")[0]


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """All parts, or one."""
    if chosen.part in (None, "table"):
        yield table(3 if chosen.small else chosen.repeats)
    if chosen.part in (None, "map") and not chosen.small:
        yield slider()
    if chosen.part in (None, "rival"):
        yield from rival(2 if chosen.small else RIVAL_ROUNDS)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--part", choices=["table", "map", "rival"])


if __name__ == "__main__":
    run(__doc__, measure, options)
