"""The PyInstaller hooks of this package; see its manual, "Providing PyInstaller hooks"."""

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the hooks folder; PyInstaller calls it through the entry point `hook-dirs`."""
    return [str(Path(__file__).parent)]
