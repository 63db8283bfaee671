"""`rappor pause`: sign and show the list of metrics that devices neither record nor send."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from ohttp.pause_list import public_key, read, sign
from ohttp.pause_wire import MOST_BYTES, PauseList
from publication.release.signature import load_private_key
from rappor_cli import options as shared
from rappor_cli.groups import command_group
from rappor_core.metrics.loading import load_metrics
from rappor_core.whole_files import replacing

app = command_group(
    "Stop metrics on devices without a release of the app.",
    "rappor pause sign homepage=2026-12-20 --signing-key keys/release-key.pem "
    "--app org.example.app --metrics metrics.toml -o paused.list",
)


@app.command("sign")
def sign_(
    output: shared.OutputFile,
    key: Annotated[
        Path, typer.Option("--signing-key", help="Private key, of `rappor release keygen`.")
    ],
    app_name: Annotated[str, typer.Option("--app", help="Name of the app, as its devices say.")],
    paused: Annotated[
        list[str] | None,
        typer.Argument(help="METRIC=DAY, the last day of the pause; none: all go on."),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=89, help="For which the list holds, from today.")
    ] = 30,
    metrics: Annotated[
        Path | None, typer.Option(help="The app's metrics.toml, to refuse names it lacks.")
    ] = None,
) -> None:
    """Write a signed list; it takes the place of the one in the same file, with the next number.

    Devices stop on their next day of sending. `rappor serve` serves the file of the setting
    paused_list. A pause ends on its day, with the list, or with a later list without it.
    """
    private = load_private_key(key)
    chosen = dict(_pause(text) for text in paused or [])
    if metrics is not None:
        known = {metric.base_name for metric in load_metrics(metrics).declared}
        for name in sorted(chosen.keys() - known):
            raise typer.BadParameter(f"{name!r} is not declared in {metrics}")
    number = read(private.public_key(), output.read_bytes()).number if output.exists() else 0
    today = datetime.now(UTC).date()
    made = PauseList(app_name, number + 1, today + timedelta(days=days), chosen)
    with replacing(output) as part:
        part.write_bytes(sign(private, made))
    print(_shown(made))


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A signed list.")],
    key: Annotated[Path, typer.Option("--public-key", help="Public key of its signer, PEM.")],
    as_json: shared.Json = False,
) -> None:
    """Verify a list and say what it pauses."""
    with file.open("rb") as opened:
        found = read(public_key(key.read_bytes()), opened.read(MOST_BYTES + 1))
    print(json.dumps(json.loads(found.text())) if as_json else _shown(found))


def _pause(text: str) -> tuple[str, date]:
    name, _, day = text.rpartition("=")
    try:
        return name, date.fromisoformat(day)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not METRIC=DAY, as homepage=2026-12-20") from None


def _shown(one: PauseList) -> str:
    named = ", ".join(f"{name} until {day}" for name, day in sorted(one.paused.items()))
    return f"list {one.number} of {one.app}, holds until {one.expires}: {named or 'nothing paused'}"
