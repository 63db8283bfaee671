"""The environment of all pages: values are escaped, and a name that is not given is an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template

from decoder.output.assets import flow_stylesheet, map_stylesheet, script, stylesheet
from decoder.tables.format import (
    count,
    days,
    fraction,
    interval,
    p_text,
    percent,
    points,
    points_interval,
    short,
    signed_interval,
    signed_percent,
)

_FILTERS = (count, fraction, p_text, percent, points, short, signed_percent)


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
    environment.filters |= {one.__name__: one for one in _FILTERS}
    environment.globals |= {
        "assets": assets,
        "days": days,
        "interval": interval,
        "points_interval": points_interval,
        "signed_interval": signed_interval,
        "script": script,
        "stylesheet": stylesheet,
        "flow_stylesheet": flow_stylesheet,
        "map_stylesheet": map_stylesheet,
    }
    return environment


def page_template(name: str, *packages: str, **filters: Callable[..., str]) -> Template:
    """Load a template for a page that holds its own style and scripts.

    packages: as in `page_environment`.  filters: more functions that it may apply, by names
    that no other page gives another meaning.
    """
    environment = page_environment(None, *packages)
    environment.filters |= filters
    return environment.get_template(name)
