"""The templates of the pages: values are escaped, and a name that is not given is an error."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


def page_template(name: str, *, trim: bool = True, **filters: Callable[..., str]) -> Template:
    """A template of `decoder/reports/templates`.

    Args:
        name: of the file.
        trim: whether a block tag takes its line's blanks and end with it.
        filters: functions that the template may apply, by name.
    """
    environment = Environment(
        loader=PackageLoader("decoder.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=trim,
        lstrip_blocks=trim,
    )
    environment.filters |= filters
    return environment.get_template(name)
