"""What PyInstaller must know of this package; see its manual, "Providing PyInstaller hooks"."""

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Name the folder of hooks; called by PyInstaller through the entry point `hook-dirs`."""
    return [str(Path(__file__).parent)]
