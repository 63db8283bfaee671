"""Styles and scripts of the pages: inlined in a page that is a file, linked in one of the
service."""

from __future__ import annotations

from importlib.resources import files

from decoder.output.palette import PICTURE_STEPS, THEMES, css_colours

SCRIPTS = ("map.js",)
SCALES = ("stops", "turn")  # lists of colours, each one variable
LINES = "lines"  # a list of colours, each a variable of its own


def stylesheet() -> str:
    """The style of every page: the colours of both themes, then the components.

    A page is printed light. `data-theme="light"` on the root asks for light.
    """
    dark = f":root:not([data-theme=light]) {{ color-scheme: dark; {_variables('dark')} }}"
    return (
        f":root {{ color-scheme: light; {_variables('light')} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n{_text('page.css')}"
    )


def flow_stylesheet() -> str:
    """The style of the diagram of zones, which other pages do without."""
    return _text("flows.css")


def map_stylesheet() -> str:
    """The style of maps, which other pages do without, with a class for each colour of their
    pictures (`map_picture`)."""
    dark = _picture_colours("dark")
    return (
        f"{_text('maps.css')}{_picture_colours('light')}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {dark} }}\n"
    )


def script(name: str) -> str:
    """The text of one of the scripts named in `SCRIPTS`."""
    if name not in SCRIPTS:
        raise KeyError(name)
    return _text(name)


def _variables(theme: str) -> str:
    known = THEMES[theme]
    plain = [f"--{name}: {value};" for name, value in known.items() if name not in (*SCALES, LINES)]
    plain += [f"--line-{i}: {value};" for i, value in enumerate(known[LINES])]
    scales = [f"--{name}: {' '.join(known[name])};" for name in SCALES]
    return " ".join([*plain, *scales])


def _picture_colours(theme: str) -> str:
    root = ":root:not([data-theme=light]) " if theme == "dark" else ""
    return " ".join(
        f"{root}.{name}-{step} {{ fill: {colour}; }}"
        for name, scale in (("shade", "stops"), ("turn", "turn"))
        for step, colour in enumerate(css_colours(scale, theme, PICTURE_STEPS))
    )


def _text(name: str) -> str:
    """A file without indentation and lines of comment: it is part of every page that is a file."""
    text = files("decoder.output").joinpath("static", name).read_text(encoding="utf-8")
    lines = (line.lstrip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith(("//", "/*")))
