"""`rappor keys`: create, list and revoke the keys of a collector."""

import json
from typing import Annotated, Any

import typer

from collector.domain.access import Scope, public_fields
from collector.domain.operations import COMMAND_LINE
from decoder.sources.collector_client import ask_json
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.store import need_one, opened
from rappor_cli.text import print_records

app = command_group(
    "Create, list and revoke keys.",
    "rappor keys create --scope report --database sqlite:///collector.sqlite",
)
_COLUMNS = {
    "key id": "key_id", "scope": "scope", "created": "created", "revoked": "revoked",
    "label": "label",
}  # fmt: skip


@app.command()
def create(
    scope: Annotated[Scope, typer.Option(help="What the key permits.")],
    label: Annotated[str, typer.Option(help="The user or purpose of the key.")] = "",
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Create a key and print it. Only a hash is stored, so it cannot be shown again."""
    need_one(collector, database)
    if collector is not None:
        body = json.dumps({"scope": scope.value, "label": label}).encode()
        text = ask_json(collector, "/v1/keys", "key", method="POST", body=body)["key"]
    else:
        with opened(str(database), may_be_new=True) as service:
            text = service.create_key(scope, label, COMMAND_LINE).text
    print(text)


@app.command("list")
def list_(
    collector: shared.Collector = None,
    database: shared.Database = None,
    as_json: shared.Json = False,
) -> None:
    """List keys: id, scope, label, creation, revocation."""
    need_one(collector, database)
    if collector is not None:
        keys: list[dict[str, Any]] = ask_json(collector, "/v1/keys", "keys")["keys"]
    else:
        with opened(str(database)) as service:
            keys = [public_fields(row) for row in service.list_keys()]
    print_records(keys, _COLUMNS, as_json=as_json)


@app.command()
def revoke(
    key_id: shared.KeyId,
    collector: shared.Collector = None,
    database: shared.Database = None,
) -> None:
    """Revoke a key permanently."""
    need_one(collector, database)
    if collector is not None:
        ask_json(collector, f"/v1/keys/{key_id}/revoke", "revoked", method="POST")
    else:
        with opened(str(database)) as service:
            service.revoke_key(key_id, COMMAND_LINE)
    print(f"revoked {key_id}")
