"""Speed of the pages: a table of ten thousand rows, and a step of a map's slider.

1. A result of the decoder service, every candidate on one page of 10,000 rows, over HTTP from a
   service in this process: time of the clock and of the processor.
2. A map of 4,032 cells and 60 windows in headless Chromium without a graphics card: from one step
   of the slider to the frame after which the next can be taken. Needs Chromium and playwright.

Usage: python benchmarks/pages.py [--repeats 15] [--part table|map] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import io
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from _run import Comparison, run

from decoder.output.basemap import bundled_source
from decoder.output.density_html import view_of
from decoder.output.jinja import page_template
from decoder.output.map_data import map_json
from decoder.output.palette import TOLD_FROM, UNTOLD_STEPS, UNTOLD_TO
from rappor_core.metrics.file import parse_metrics

ROWS, COLUMNS, WINDOWS, PASSES = 63, 64, 60, 7
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
        "scale": {"told_from": TOLD_FROM, "untold_to": UNTOLD_TO, "untold_steps": UNTOLD_STEPS},
        "around": {name: [] for name in names},
        "base": {"lines": [], "areas": [], "points": []},
        "texts": {"promise": "", "grid": "", "level": "95 %", "notes": [],
                  "source": bundled_source()},
    }  # fmt: skip


def one_map(number: int, rng: np.random.Generator) -> dict[str, Any]:
    """A window: shares that fall off from a centre, half of the cells told apart from zero."""
    row, column = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    near = np.exp(-((row - 30) ** 2 + (column - 10 - number * 0.7) ** 2) / 200)
    shares = np.rint(near / near.sum() / UNIT).astype(int)
    return {
        "slot": "night 22-6",
        "window": f"week {number}",
        "reports": 1_000_000,
        "floor": 1e-4,
        "other": 0.1,
        "unlisted": 0.0,
        "share": shares.tolist(),
        "low": (shares // 2).tolist(),
        "high": (shares * 2).tolist(),
        "estimate": shares.tolist(),
        "shade": rng.integers(0, 256, len(shares)).tolist(),
        "visible": np.flatnonzero(rng.random(len(shares)) < 0.5).tolist(),
        "source": "",
        "changed": {},
    }


def slider() -> Comparison:
    """Part 2."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if chromium is None:
        return Comparison("", STEPS, note="not run: no Chromium here (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return Comparison("", STEPS, note="not run: no playwright (pip install playwright)")
    data = places()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        path = Path(folder) / "map.html"
        out = io.StringIO(
            page_template("density.html.j2").render(
                metric=METRIC, data=map_json(data), data_url=None, **view_of(data)
            )
        )
        path.write_text(out.getvalue(), encoding="utf-8")
        browser = play.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_selector("#maps canvas")
        clock = page.context.new_cdp_session(page)
        clock.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = thread_seconds(clock)
        passes = [page.evaluate(STEP) for _ in range(PASSES)]
        spent = thread_seconds(clock) - before
        browser.close()
    medians = sorted(map(statistics.median, passes))
    return Comparison(
        "", STEPS, "ms", (1000 * spent / sum(map(len, passes)),), target=33.0,
        note=f"by the clock, medians of {PASSES} passes, {medians[0]:.1f} to {medians[-1]:.1f} ms",
    )  # fmt: skip


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
    """Both parts, or one."""
    if chosen.part != "map":
        yield table(3 if chosen.small else chosen.repeats)
    if chosen.part != "table" and not chosen.small:
        yield slider()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--part", choices=["table", "map"])


if __name__ == "__main__":
    run(__doc__, measure, options)
