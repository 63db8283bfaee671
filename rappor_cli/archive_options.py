"""Parse the options of `rappor archive`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import typer

from archive.errors import ArchiveError, ArchiveKeyError
from archive.keys import ArchiveKey, load_key
from archive.manifest import keep_until
from archive.parts import PartLabel
from rappor_cli.days import read_day
from rappor_core.metrics.loading import load_metrics

Window = tuple[date | None, date | None]


def window_of(first: str | None, last: str | None, week: str | None) -> Window:
    """The days of --from and --to, or of --week. Wrong usage for no ISO week."""
    if week is None:
        return read_day(first), read_day(last)
    if first or last:
        raise typer.BadParameter("--week stands instead of --from and --to")
    try:
        monday = datetime.strptime(f"{week}-1", "%G-W%V-%u").date()
    except ValueError:
        raise typer.BadParameter(f"--week {week!r} is not an ISO week such as 2026-W47") from None
    return monday, monday + timedelta(days=6)


def numbers_of(text: str) -> set[int]:
    """Parse a list of numbers and ranges such as `0-3,7` into a set."""
    found: set[int] = set()
    for piece in text.split(","):
        low, _, high = piece.strip().partition("-")
        if not (low.isdecimal() and (high or low).isdecimal() and len(high + low) < 16):
            raise typer.BadParameter(f"--cohorts {text!r}: numbers and spans such as 0-3,7")
        if int(high or low) - int(low) > 1 << 20:
            raise typer.BadParameter(f"--cohorts {text!r}: there are never so many")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def key_to_write(path: Path | None, unencrypted: bool) -> ArchiveKey:
    """The key of --archive-key, or none where --unencrypted is said. Raises ArchiveKeyError."""
    if (path is None) != unencrypted:
        raise ArchiveKeyError(
            "name a key with --archive-key FILE (rappor archive key FILE makes one), or say "
            "--unencrypted"
        )
    return load_key(path)


def label_of(
    metric: str,
    metrics: Path | None,
    params: Path | None,
    days: tuple[date | None, date | None],
    keep_days: int | None,
) -> tuple[PartLabel, Any]:
    """The label of an imported part, and the metric that declares it, if one does."""
    if (metrics is None) == (params is None):
        raise typer.BadParameter("name --metrics metrics.toml or --params params.csv")
    if (days[0] is None) != (days[1] is None):
        raise typer.BadParameter("--from and --to go together")
    declared = None
    if metrics is not None:
        known = load_metrics(metrics).metrics
        if metric not in known:
            raise ArchiveError(f"{metrics}: no metric {metric!a}")
        declared = known[metric]
        keep_days = min(keep_days or declared.keep_raw_days, declared.keep_raw_days)
    if not keep_days:
        raise ArchiveError(
            f"{metric!a}: no retention; give --keep-days, and keep_raw_days in metrics.toml"
        )
    if declared is not None:
        params_id, definition, parameters = declared.params_id, declared.to_dict(), declared.params
    else:
        from decoder.formats.google_rappor import read_params  # needs the decoder's libraries

        params_id, definition, parameters = "", {}, read_params(Path(str(params)))
    until = keep_until(days[0] or utc_today(), keep_days)
    return PartLabel(metric, params_id, definition, parameters, *days, until), declared


def utc_today() -> date:
    """The current day, UTC."""
    return datetime.now(UTC).date()
