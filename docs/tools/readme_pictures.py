"""The picture of README: `python docs/tools/readme_pictures.py docs/assets/map_and_chart.png`.

A map of 400 cells from drawn counts of `rappor demo`, by the steps of `rappor density`, next to the
chart of `examples/notebook`, whose cells are run as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from rappor_cli.main import main
from simulations.experiments.demo_weeks import place_weeks

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook"
WIDTH = 480  # of each, pixels
COLORS = 160


def draw_map(folder: Path) -> None:
    """Write `density.svg`, and as a browser shows it `density.png`: the last week of the night,
    from 60,000 answers."""
    rng = np.random.default_rng(8)
    weeks = [one for one in place_weeks(date(2026, 11, 22), rng) if "/night/" in one.metric]
    counts = folder / "counts.json"
    counts.write_text(weeks[-1].to_json())
    main(["density", "usual_place", "--aggregate", str(counts), "-o", str(folder)])
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 660, "height": 900}, device_scale_factor=2)
        page.goto((folder / "density.svg").as_uri())
        page.locator("svg").first.screenshot(path=folder / "density.png")
        browser.close()


def draw_chart(folder: Path) -> None:
    """Write `chart.svg` by the cells of the notebook."""
    cells = json.loads((NOTEBOOK / "counts_to_chart.ipynb").read_text())["cells"]
    names: dict[str, Any] = {"__name__": "__notebook__"}
    os.chdir(NOTEBOOK)
    for cell in cells:
        if cell["cell_type"] == "code":
            code = "".join(cell["source"]).replace("chart.svg", str(folder / "chart.png"))
            exec(code, names)  # noqa: S102 - our own


def draw_both(folder: Path, output: Path) -> None:
    """Both pictures in one of few colors, which is small."""
    both = [Image.open(folder / name).convert("RGB") for name in ("density.png", "chart.png")]
    scaled = [one.resize((WIDTH, WIDTH * one.height // one.width)) for one in both]
    whole = Image.new("RGB", (2 * WIDTH, scaled[0].height), "white")
    for number, one in enumerate(scaled):
        whole.paste(one, (number * WIDTH, (whole.height - one.height) // 2))
    whole.quantize(COLORS).save(output, optimize=True)


if __name__ == "__main__":
    mpl.use("Agg")
    target = Path(sys.argv[1]).resolve()
    with TemporaryDirectory() as made:
        draw_map(Path(made))
        draw_chart(Path(made))
        draw_both(Path(made), target)
