"""Requirements of jobs and large uploads on the operating system."""

from __future__ import annotations

from decoder_service.shell.errors import UnavailableError


def check_platform(what: str) -> None:
    """Raises UnavailableError where processes cannot be bounded, as on Windows.

    what: is not done there.
    """
    try:
        import fcntl  # noqa: F401 (here it is asked whether there is one)
        import resource  # noqa: F401
    except ImportError:
        raise UnavailableError(
            f"{what}: that takes processes with bounds of memory and time, which this system has "
            "not; use Linux or macOS, or on Windows WSL or a container"
        ) from None
