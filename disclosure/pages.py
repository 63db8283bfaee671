"""Templates of the pages of releases and groups: values are escaped, and the longest are cut."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from decoder.tables.format import short

LONGEST = 200  # characters of a value


def page_template(package: str, name: str) -> Template:
    """Load a template from the folder `templates` of a package."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = "{:,}".format
    environment.filters["short"] = lambda text, most=LONGEST: short(text, most)
    return environment.get_template(name)
