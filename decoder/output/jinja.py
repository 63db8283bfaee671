"""The template environment of all pages, with their colors, styles and scripts.

A page that is a file has them inline; a page of the service links to them. Map colors range from
paper (nothing) to dark (much), change colors from blue (less) to orange (more). An undetected cell
has one of a few pale steps up to `UNDETECTED_TO`, and no detected cell is paler than
`DETECTED_FROM` (Correll, Moritz and Heer 2018)."""

import json
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
    """Return the CSS of every page: colors, then components; `data-theme="light"` forces light."""
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
    """Return the CSS that only maps need."""
    return _text("leaflet/leaflet.css") + _text("maps.css")


def script(name: str) -> str:
    """Return the text of one of the scripts named in `SCRIPTS`."""
    return _text(SCRIPTS[name])


def _text(name: str) -> str:
    text = files("decoder.output").joinpath("static", name).read_text(encoding="utf-8")
    return re.sub(r"^\s*(//.*|/\*.*\*/)?\n|^[ \t]+", "", text, flags=re.MULTILINE)


THEMES: dict[str, dict[str, Any]] = json.loads(_text("themes.json"))


def colors(places: Floats, theme: str = "light", scale: str = "stops") -> Floats:
    """Return red, green and blue (0 to 1) for positions on a color scale, (n, 3)."""
    stops = np.array([rgb(text) for text in THEMES[theme][scale]])
    stop_places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(places, stop_places, stops[:, c]) for c in range(3)], axis=-1)


def rgb(text: str) -> tuple[float, float, float]:
    """Return the red, green and blue parts, from 0 to 1, of a color like #rrggbb."""
    red, green, blue = (int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
