"""The documentation as a site: strict, complete, and without anything loaded from elsewhere."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe)\b[^>]*\bsrc=\"(https?:)?//|<link\b[^>]*\brel=\"?"
                    r"(?:stylesheet|preconnect|icon)[^>]*href=\"(https?:)?//")  # fmt: skip


def mkdocs() -> list[str] | None:
    """How to start mkdocs here: of this environment, or of the one that RAPPOR_MKDOCS names."""
    given = os.environ.get("RAPPOR_MKDOCS") or shutil.which(
        "mkdocs", path=Path(sys.executable).parent
    )
    return [str(given)] if given else None


@pytest.mark.long
@pytest.mark.skipif(mkdocs() is None, reason="mkdocs is not installed: pip install '.[docs]'")
def test_the_site_builds_and_loads_nothing_foreign(tmp_path: Path) -> None:
    command = mkdocs()
    assert command
    done = subprocess.run(
        [*command, "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))  # and 404.html
    for page in pages:
        assert not LOADED.search(page.read_text(encoding="utf-8")), page.name
    assert (tmp_path / "site" / "search" / "search_index.js").exists()  # without a server
