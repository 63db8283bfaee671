"""`rappor ohttp-keys`: create, list and retire keys for devices behind a relay."""

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer

from collector.domain.relay_keys import (
    RelayKey,
    create_relay_key,
    read_relay_keys,
    retire_relay_keys,
)
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.text import print_columns
from rappor_core.ohttp.encapsulation import encode_keys

app = command_group(
    "Create, list and retire the keys of devices behind a relay.",
    "rappor ohttp-keys create --keys ohttp-keys.json -o relay-key.bin",
)
FileOption = Annotated[
    Path,
    typer.Option("--keys", envvar="RAPPOR_OHTTP_KEYS", help="The collector's private key file."),
]


@app.command()
def create(
    file: FileOption,
    output: shared.NewFile,
) -> None:
    """Add a key to the file, and write its public part to ship with the app's next release.

    A running collector detects it within a second. The file contains secrets: copy it to every host
    and to a secret store; `rappor backup` does not include it.
    """
    if output.exists():
        raise typer.BadParameter(f"{output} exists; name a new file")
    key = create_relay_key(file, _today())
    output.write_bytes(encode_keys([key.config]))
    print(f"key {key.key_id}: ship {output} with the app; the private part is in {file}")


@app.command("list")
def list_(
    file: FileOption,
    max_age_days: Annotated[
        int, typer.Option(help="Age at which the newest key is due for renewal.", min=1)
    ] = 90,
    as_json: shared.Json = False,
) -> None:
    """List keys: number, creation, age in days, whether a new key is due, retirement."""
    rows, today = read_relay_keys(file), _today()
    newest = max((row.created for row in rows if row.private is not None), default=None)
    if as_json:
        print(json.dumps([_fields(row) for row in rows]))
        return
    lines = []
    for row in rows:
        days, is_newest = (today - row.created).days, row.private and row.created == newest
        due = "yes" if is_newest and days > max_age_days else "no"
        lines.append([str(row.key_id), str(row.created), str(days), str(row.retired or "no"), due])
    print_columns(["key", "created", "days", "retired", "newer one due"], lines)


@app.command()
def retire(
    file: FileOption,
    key_id: Annotated[int | None, typer.Argument(help="Number of the key.")] = None,
    older_than: Annotated[
        int | None, typer.Option(help="All keys older than this number of days.", min=1)
    ] = None,
) -> None:
    """Delete the private part of a key permanently.

    App releases with that key can then no longer send reports. Reports encrypted with it can never
    be decrypted.
    """
    if (key_id is None) == (older_than is None):
        raise typer.BadParameter("name one key, or --older-than DAYS")
    today = _today()

    def is_chosen(row: RelayKey) -> bool:
        if older_than is None:
            return row.key_id == key_id
        return (today - row.created).days > older_than

    gone = retire_relay_keys(file, is_chosen, today)
    print(f"retired {', '.join(map(str, gone))}")


def _fields(row: RelayKey) -> dict[str, object]:
    public = None if row.private is None else b64encode(encode_keys([row.config])).decode()
    retired = None if row.retired is None else row.retired.isoformat()
    created = row.created.isoformat()
    return {"key_id": row.key_id, "created": created, "retired": retired, "public": public}


def _today() -> date:
    return datetime.now(UTC).date()
