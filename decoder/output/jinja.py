"""The environment of all pages, with their styles and scripts, which are inlined in a page that is
a file, and linked in one of the service.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from decoder.output.palette import THEMES
from decoder.tables import format as texts

_FILTERS = ("count", "fraction", "p_text", "percent", "points", "short")
SCRIPTS = {
    "leaflet.js": "leaflet/leaflet.js",
    "protomaps-leaflet.js": "protomaps/protomaps-leaflet.js",
    "map.js": "map.js",
}  # files by name
_FUNCTIONS = ("days", "interval", "points_interval")


@cache
def page_environment(assets: str | None = None, *packages: str) -> Environment:
    """A Jinja environment with the templates of `decoder/output/templates`, their filters and
    functions.

    Args:
        assets: URL of the folder where style and scripts are served; None puts them into the page.
        packages: others with a folder `templates`.
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
    """Load a template for a page that holds its own style and scripts.

    packages: as in `page_environment`.  filters: more functions that it may apply.
    """
    environment = page_environment(None, *packages)
    environment.filters |= filters
    return environment.get_template(name)


def stylesheet() -> str:
    """The style of every page: colors, then components. `data-theme="light"` asks for light."""
    colors = {}
    for theme, known in THEMES.items():
        named = {name: value for name, value in known.items() if name != "lines"}
        named |= {f"line-{i}": value for i, value in enumerate(known["lines"])}
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
    """The style of maps, which other pages do without."""
    return _text("leaflet/leaflet.css") + _text("maps.css")


def script(name: str) -> str:
    """The text of one of the scripts named in `SCRIPTS`."""
    return _text(SCRIPTS[name])


def _text(name: str) -> str:
    """A file without indentation and comments of one line: every page that is a file has it."""
    text = files("decoder.output").joinpath("static", name).read_text(encoding="utf-8")
    return re.sub(r"^\s*(//.*|/\*.*\*/)?\n|^[ \t]+", "", text, flags=re.MULTILINE)
