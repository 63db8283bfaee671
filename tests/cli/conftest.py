"""What commands of maps do not draw where a test looks at no picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def empty_pictures() -> Iterator[None]:
    """Pictures of maps are empty files: to draw one takes a second of processor."""
    with pytest.MonkeyPatch.context() as patch:

        def write(_: Any, path: Path, *__: Any) -> None:
            path.write_bytes(b"")

        patch.setattr("decoder.output.density_png.write_picture", write)
        yield
