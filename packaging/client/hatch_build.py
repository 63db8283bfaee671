"""Build hook of the device's wheels: the files that they list, stripped."""

from __future__ import annotations

import importlib
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class StrippedSources(BuildHookInterface):
    """Puts `files` (of the repository; a folder stands for all in it) into the wheel.

    `left_out` are files and folders of which the wheel takes none. With `bundle`, the modules are
    one file (bundle.py).
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the stripped files aside, and name them to the builder."""
        self.aside = tempfile.TemporaryDirectory()
        zlib.Z_DEFAULT_COMPRESSION = 9  # which zipfile takes where the builder names no level
        for number, (name, text) in enumerate(load("wheel_files").wheel_texts(ROOT, self.config)):
            path = Path(self.aside.name) / str(number)
            path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = name

    def finalize(self, *_: Any) -> None:
        """Remove them."""
        self.aside.cleanup()


def load(name: str) -> Any:
    """A module beside this one, which is on no path."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    return importlib.import_module(name)
