"""Build hook of the device's wheels: the files that they list, stripped."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


class StrippedSources(BuildHookInterface):
    """Puts `files` (of the repository; a folder stands for all in it) into the wheel.

    `left_out` are files and folders of which the wheel takes none.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the stripped files aside, and name them to the builder."""
        self.aside = tempfile.TemporaryDirectory()
        sources = load("wheel_files").wheel_files(ROOT, self.config)
        strip = load("strip_source").stripped
        for number, name in enumerate(sorted(sources)):
            source = ROOT / name
            path = Path(self.aside.name) / str(number)
            text = source.read_text(encoding="utf-8")
            path.write_text(strip(text) if source.suffix == ".py" else text, encoding="utf-8")
            build_data["force_include"][str(path)] = name

    def finalize(self, *_: Any) -> None:
        """Remove them."""
        self.aside.cleanup()


def load(name: str) -> Any:
    """A module beside this one, which is on no path."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{HERE} lacks {name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
