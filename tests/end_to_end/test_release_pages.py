"""Pages of releases in a real browser: nothing scrolls sideways, and axe has nothing to say."""

from pathlib import Path

import pytest

from tests.decoder_service.release_support import (
    decoded,
    proposal,
    propose,
    releasing,
    settle,
    stored,
)
from tests.end_to_end.test_service_pages import every_page_fits, need_browser, signed_in_page


@pytest.mark.long
def test_a_release_in_a_browser(tmp_path: Path) -> None:
    need_browser()
    with releasing(f"sqlite:///{tmp_path}/d.sqlite") as served, signed_in_page(served) as page:
        results = [stored(served, decoded(tmp_path, "word", week), "ana") for week in (0, 1)]
        first = propose(served, "ana", proposal("words", results[0]))["id"]
        assert settle(served, "root", first).status_code == 200
        second = propose(served, "ana", proposal("words", results[1]))["id"]
        paths = ["/releases", "/releases/new", f"/releases/{first}", f"/releases/{second}"]
        every_page_fits(page, served.url, paths, "release-")
        page.goto(f"{served.url}/releases/{first}")
        with page.expect_download() as started:
            page.click("text=release.csv")
        assert b"word" in Path(started.value.path()).read_bytes()
        assert page.said == []
