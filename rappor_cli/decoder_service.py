"""`rappor decoder`: run the decoder service and manage its keys."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from decoder_service.people.access import COMMAND_LINE, shown_key
from decoder_service.people.permissions import Role
from decoder_service.shell.database import check_is_there
from decoder_service.shell.server import serve as run_service
from decoder_service.shell.server import work
from decoder_service.shell.service import DecoderService, make_service
from decoder_service.shell.settings import ServiceSettings, load_settings
from rappor_cli import options as shared
from rappor_cli.options import command_group
from rappor_cli.text import print_records
from rappor_server.schema import prepare

app = command_group(
    "The decoder service: jobs, results, lists, people.",
    "rappor decoder keys create --role admin --name Grace --database sqlite:///decoder.sqlite",
)
keys = command_group(
    "Create, list and revoke keys of the service.",
    "rappor decoder keys create --role analyst --name Ada --database sqlite:///decoder.sqlite",
)
app.add_typer(keys, name="keys")

CollectorUrl = Annotated[
    str | None,
    typer.Option(help="URL of a collector; its key comes from RAPPOR_DECODER_COLLECTOR_KEY."),
]
_COLUMNS = {
    "key id": "key_id", "role": "role", "created": "created", "revoked": "revoked",
    "person": "name", "label": "label",
}  # fmt: skip
Slots = Annotated[int | None, typer.Option("--slots", help="Jobs that run at once.")]


@app.command()
def serve(
    database: shared.ServedDatabase = None,
    host: shared.Host = None,
    port: shared.Port = None,
    collector: CollectorUrl = None,
    slots: Annotated[
        int | None, typer.Option("--slots", help="Jobs that run at once; 0: workers run elsewhere.")
    ] = None,
) -> None:
    """Run the website and a worker. Every setting can also be given as RAPPOR_DECODER_<NAME>."""
    settings = _settings(
        database=database, host=host, port=port, collector=collector, job_slots=slots
    )
    run_service(settings)


@app.command()
def worker(
    database: shared.ServedDatabase = None, collector: CollectorUrl = None, slots: Slots = None
) -> None:
    """Run only a worker, on any machine that can reach the database."""
    work(_settings(database=database, collector=collector, job_slots=slots))


@keys.command()
def create(
    role: Annotated[Role, typer.Option(help="What the key permits.")],
    name: Annotated[str, typer.Option(help="The person who owns the key.")],
    label: Annotated[str, typer.Option(help="The program that uses the key.")] = "",
    database: shared.ServedDatabase = None,
) -> None:
    """Create a key and print it. Only a hash is stored, so it cannot be shown again."""
    with _opened(_settings(database=database), may_be_new=True) as service:
        print(service.access.create_key(COMMAND_LINE, name, role, label).text)


@keys.command("list")
def list_(database: shared.ServedDatabase = None, as_json: shared.Json = False) -> None:
    """List keys: id, role, person, label, creation, revocation."""
    with _opened(_settings(database=database)) as service:
        rows = [shown_key(row) for row in service.access.list_keys(COMMAND_LINE)]
    print_records(rows, _COLUMNS, as_json=as_json)


@keys.command()
def revoke(
    key_id: shared.KeyId,
    database: shared.ServedDatabase = None,
) -> None:
    """Revoke a key permanently, and end the sessions that were opened with it."""
    with _opened(_settings(database=database)) as service:
        service.access.revoke_key(COMMAND_LINE, key_id)
    print(f"revoked {key_id}")


def _settings(**chosen: Any) -> ServiceSettings:
    return load_settings(**{name: value for name, value in chosen.items() if value is not None})


@contextmanager
def _opened(settings: ServiceSettings, *, may_be_new: bool = False) -> Iterator[DecoderService]:
    """Open the service's database for one command; it is created only if `may_be_new`."""
    if not may_be_new:
        check_is_there(settings.database)
    service = make_service(settings)
    try:
        prepare(service.database)
        yield service
    finally:
        service.close()
