"""The template environment of all pages, with their colors, styles and scripts.

A page that is a file has them inline; a page of the service links to them. Map colors range from
paper (nothing) to dark (much), change colors from blue (less) to orange (more). An undetected cell
has one of a few pale steps up to `UNDETECTED_TO`, and no detected cell is paler than
`DETECTED_FROM` (Correll, Moritz and Heer 2018)."""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from decoder.tables import format as texts
from decoder.typing import Floats

DETECTED_FROM = 0.3
UNDETECTED_TO = 0.2
UNDETECTED_STEPS = 3
THEMES: dict[str, dict[str, Any]] = {
    "light": {
        "stops": ["#fffefb", "#fde3cd", "#f6b48f", "#e0776a", "#b03a63", "#6d1a5c", "#2a0a3d"],
        "turn": ["#153e90", "#5b86cf", "#b9cdee", "#f5f3ee", "#f4c39b", "#d9763a", "#8a3206"],
        "ink": "#1c2430", "faint": "#566172", "paper": "#ffffff", "ground": "#f4f6f9",
        "line": "#d7dde5", "edge": "#808b9a",
        "land": "#fffefb", "water": "#dfeaf2", "coast": "#8aa0b2", "base": "#7b8794",
        "mark": "#0a63c9", "brand": "#1f5fbf", "band": "#638fd4", "truth": "#b4540a",
        "warn": "#7d5200", "warn-ground": "#fff6e0", "warn-line": "#e8d39a",
        "good": "#1a6b3c", "bad": "#b3261e",
        "lines": ["#1f5fbf", "#b4540a", "#1a6b3c", "#8a2f9c", "#a3123f", "#5a6472"],
    },
    "dark": {
        "stops": ["#171b21", "#3f2b3a", "#6b3052", "#9b3a5c", "#d8625c", "#f5a470", "#fdecc4"],
        "turn": ["#8fb8ff", "#4f7fd0", "#2b4777", "#20252c", "#6b4226", "#c0702f", "#ffb877"],
        "ink": "#e7ebf0", "faint": "#a3aebc", "paper": "#171b21", "ground": "#0e1216",
        "line": "#323a45", "edge": "#75818f",
        "land": "#171b21", "water": "#0c1722", "coast": "#4d6274", "base": "#75818f",
        "mark": "#6db3ff", "brand": "#82b8ff", "band": "#4b7fc0", "truth": "#f0a35e",
        "warn": "#f3c969", "warn-ground": "#292414", "warn-line": "#5a4d22",
        "good": "#74d19b", "bad": "#ff9a92",
        "lines": ["#82b8ff", "#f0a35e", "#74d19b", "#d9a0ea", "#ff8fa8", "#b3bdca"],
    },
}  # fmt: skip
_FILTERS = ("count", "fraction", "p_text", "percent", "points", "short")
SCRIPTS = {
    "leaflet.js": "leaflet/leaflet.js",
    "protomaps-leaflet.js": "protomaps/protomaps-leaflet.js",
    "map.js": "map.js",
}  # files by name
_FUNCTIONS = ("between", "days", "edge_text", "interval", "number_text", "points_interval")


@cache
def page_environment(assets: str | None = None, *packages: str) -> Environment:
    """Return a Jinja environment with the templates, filters and functions of all pages.

    Args:
        assets: The URL of the folder where style and scripts are served; None to put them inline.
        packages: Additional packages with a folder `templates`.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "decoder.output")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {name: getattr(texts, name) for name in _FILTERS}
    environment.globals |= {name: getattr(texts, name) for name in _FUNCTIONS}
    environment.globals |= {
        "assets": assets,
        "tiles": None,
        "script": script,
        "stylesheet": stylesheet,
        "map_stylesheet": map_stylesheet,
    }
    return environment


def page_template(name: str, *packages: str, **filters: Callable[..., str]) -> Template:
    """Load the template of a page with inline style and scripts.

    `packages` are as in `page_environment`; `filters` are additional filter functions."""
    environment = page_environment(None, *packages)
    environment.filters |= filters
    return environment.get_template(name)


def stylesheet() -> str:
    """Return the style of every page: colors, then components (`data-theme="light"`: light)."""
    colors = {}
    for theme, palette in THEMES.items():
        named = {name: value for name, value in palette.items() if name != "lines"}
        named |= {f"line-{i}": value for i, value in enumerate(palette["lines"])}
        colors[theme] = " ".join(
            f"--{name}: {value if isinstance(value, str) else ' '.join(value)};"
            for name, value in named.items()
        )
    dark = f":root:not([data-theme=light]) {{ color-scheme: dark; {colors['dark']} }}"
    return (
        f":root {{ color-scheme: light; {colors['light']} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{_text('page.css')}"
    )


def map_stylesheet() -> str:
    """Return the style that only maps need."""
    return _text("leaflet/leaflet.css") + _text("maps.css")


def script(name: str) -> str:
    """Return the text of one of the scripts named in `SCRIPTS`."""
    return _text(SCRIPTS[name])


def _text(name: str) -> str:
    text = files("decoder.output").joinpath("static", name).read_text(encoding="utf-8")
    return re.sub(r"^\s*(//.*|/\*.*\*/)?\n|^[ \t]+", "", text, flags=re.MULTILINE)


def colors(places: Floats, theme: str = "light", scale: str = "stops") -> Floats:
    """Return red, green and blue (0 to 1) for positions on a color scale, (n, 3)."""
    stops = np.array([rgb(text) for text in THEMES[theme][scale]])
    stop_places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(places, stop_places, stops[:, c]) for c in range(3)], axis=-1)


def rgb(text: str) -> tuple[float, float, float]:
    """Return the red, green and blue parts, from 0 to 1, of a color like #rrggbb."""
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
