"""Hook of the documentation site (mkdocs.yml): links out of `docs/` become paths.

A page may link to a file of the repository, which the site does not hold.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace each link to a file outside `docs/` by the path of that file."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        if not target.startswith("..") and not target.endswith("openapi.json"):
            return match[0]
        path = posixpath.normpath(posixpath.join("docs", target))
        text = match[1].strip("`")
        return f"`{path}`" if text in path else f"{match[1]} (`{path}`)"

    return LINK.sub(outside, markdown)
