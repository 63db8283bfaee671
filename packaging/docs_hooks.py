"""Hooks of the documentation site (mkdocs.yml): links out of `docs/`, and pictures as SVG.

The site loads nothing from elsewhere, so mermaid's own script is not there: a `mermaid` block,
which a forge draws by itself, becomes an SVG when the site is built.
"""

from __future__ import annotations

import posixpath
import re
from html import escape
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
ARROW = re.compile(r"^ *([\w.]+) --> ([\w.]+)$", re.M)
WIDTH, HEIGHT, GAP_X, GAP_Y = 128, 30, 22, 56  # of a box and between boxes, in pixels

Arrows = list[tuple[str, str]]


def on_config(config: Any) -> Any:
    """Draw `mermaid` blocks with `picture`."""
    fence = {"name": "mermaid", "class": "diagram", "format": picture}
    fences = config["mdx_configs"].setdefault("pymdownx.superfences", {})
    fences["custom_fences"] = [fence]
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """A link to a file of the repository outside `docs/` becomes the path of that file."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        if not target.startswith("..") and not target.endswith("openapi.json"):
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", target))
        text = match[1].strip("`")
        return f"`{path}`" if text in path else f"{match[1]} (`{path}`)"

    return LINK.sub(outside, markdown)


def picture(source: str, *_: Any, **__: Any) -> str:
    """The arrows `A --> B` of a mermaid graph as an SVG in layers, importers on top."""
    arrows = ARROW.findall(source)
    rows = layers(arrows)
    wide = max(len(row) for row in rows)
    total = (wide * (WIDTH + GAP_X), len(rows) * (HEIGHT + GAP_Y))
    place = {
        name: ((wide - len(row)) * (WIDTH + GAP_X) / 2 + column * (WIDTH + GAP_X), number)
        for number, row in enumerate(rows)
        for column, name in enumerate(row)
    }
    lines = "".join(_line(place[a], place[b]) for a, b in arrows)
    boxes = "".join(_box(name, *spot) for name, spot in place.items())
    return (
        f'<svg class="diagram" viewBox="0 0 {total[0]} {total[1]}" role="img" '
        f'style="max-width:{total[0]}px;width:100%" aria-label="imports, as listed on this page">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#00796b"/></marker></defs>'
        f"{lines}{boxes}</svg>"
    )


def layers(arrows: Arrows) -> list[list[str]]:
    """Names by the longest way from the top; of two that import each other, the first is above."""
    below: dict[str, list[str]] = {}
    for a, b in arrows:
        below.setdefault(a, []).append(b)
        below.setdefault(b, [])
    depth = dict.fromkeys(below, 0)

    def sink(name: str, level: int, path: tuple[str, ...]) -> None:
        depth[name] = max(depth[name], level)
        for other in below[name]:
            if other not in path and depth[other] <= level:
                sink(other, level + 1, (*path, other))

    for name in sorted(below, key=lambda name: sum(name == b for _, b in arrows)):
        if depth[name] == 0:
            sink(name, 0, (name,))
    rows = [
        sorted(n for n in depth if depth[n] == level) for level in range(max(depth.values()) + 1)
    ]
    return [row for row in rows if row]


def _line(start: tuple[float, int], end: tuple[float, int]) -> str:
    x1, y1 = start[0] + WIDTH / 2, start[1] * (HEIGHT + GAP_Y) + HEIGHT
    x2, y2 = end[0] + WIDTH / 2, end[1] * (HEIGHT + GAP_Y)
    bend = 0 if abs(end[1] - start[1]) == 1 else WIDTH * 0.8
    middle = (x1 + x2) / 2 + bend, (y1 + y2) / 2
    return (
        f'<path d="M{x1:.0f} {y1:.0f}Q{middle[0]:.0f} {middle[1]:.0f} {x2:.0f} {y2:.0f}" '
        'fill="none" stroke="#00796b" stroke-opacity=".6" marker-end="url(#tip)"/>'
    )


def _box(name: str, x: float, row: int) -> str:
    y = row * (HEIGHT + GAP_Y)
    label = escape(name.rpartition(".")[2])
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" fill="#e0f2f1" '
        f'stroke="#00796b"/><text x="{x + WIDTH / 2:.0f}" y="{y + 20}" text-anchor="middle" '
        f'font-size="13" fill="#004d40">{label}</text>'
    )
