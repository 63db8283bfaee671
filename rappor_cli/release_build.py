"""`rappor release build`, `diff`, `verify` and `keygen`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from publication.k_anonymity import Hierarchy
from publication.release import (
    CellTable,
    Difference,
    Release,
    build_release,
    compare_releases,
    key_id,
    load_policy,
    load_private_key,
    load_public_key,
    make_keys,
    policy_changes,
    read_release,
    read_source,
    sign_manifest,
    verify_release,
    write_release,
)
from rappor_cli.days import read_day
from rappor_cli.store import JsonOption
from rappor_cli.text import plain
from rappor_core.text import visible

PublicKeyOption = Annotated[
    Path | None, typer.Option("--public-key", help="The owner's public key, PEM.")
]


def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of rappor decode -o or rappor density -o. FOLDER@region=north says which "
            "stratum its reports are of."
        ),
    ],
    policy: Annotated[Path, typer.Option(help="release.toml.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="A folder that does not exist.")],
    earlier: Annotated[
        list[Path] | None,
        typer.Option(help="An earlier release, oldest first; give all that overlap."),
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Private key to sign with, PEM.")] = None,
    public_key: PublicKeyOption = None,
    hierarchy: Annotated[
        list[str] | None, typer.Option(help="METRIC=FILE: the tree of a roll-up without one.")
    ] = None,
    issued: Annotated[
        str | None, typer.Option(help="Day of issue, YYYY-MM-DD; today (UTC) if not given.")
    ] = None,
) -> None:
    """Make a release of decoded tables: rounded, suppressed, signed.

    Earlier releases are checked against their digests, and against --public-key where it is given.
    """
    rules = load_policy(policy)
    private = load_private_key(key) if key else None
    trusted = load_public_key(public_key) if public_key else None
    tables = [table for source in sources for table in _read(source)]
    trees = {metric: Hierarchy.load(Path(file)) for metric, file in map(_pair, hierarchy or [])}
    before = [read_release(folder, trusted) for folder in earlier or []]
    day = read_day(issued) or datetime.now(UTC).date()
    made = build_release(tables, rules, day, earlier=before, hierarchies=trees)
    sign = partial(sign_manifest, private) if private else None
    name = key_id(private.public_key()) if private else ""
    files = write_release(made, output, sign, name)
    _print_tables(made)
    print(f"{'signed' if private else 'not signed'}; files in {output}: {', '.join(files)}")


def diff(
    old: Annotated[Path, typer.Argument(help="Folder of a release.")],
    new: Annotated[Path, typer.Argument(help="Folder of another one.")],
    public_key: PublicKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what NEW publishes that OLD does not, and what has changed, for whoever approves it."""
    trusted = load_public_key(public_key) if public_key else None
    first, second = (read_release(folder, trusted) for folder in (old, new))
    found, rules = compare_releases(first, second), policy_changes(first, second)
    if as_json:
        print(json.dumps({"policy": rules, "changes": [asdict(one) for one in found]}))
        return
    for name, (before, after) in rules.items():
        print(f"policy: {name}: {visible(str(before))} -> {visible(str(after))}")
    _print_changes(found)
    print(f"{len(found)} changes, {len(rules)} of the policy")


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder of a release.")],
    public_key: PublicKeyOption = None,
    digests_only: Annotated[
        bool, typer.Option(help="Without a key: tells of accidents, not of who made it.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check the signature of a release, and every file against its manifest. Exit code 1 if not."""
    if (public_key is None) != digests_only:
        raise typer.BadParameter("give --public-key FILE, or --digests-only")
    trusted = load_public_key(public_key) if public_key else None
    found = verify_release(folder, trusted)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    origin = "signed by this key" if found.signed else "who made it is not known"
    print(
        f"{len(found.files)} files as in the manifest; {origin}. Owner {visible(found.owner)}, "
        f"for {visible(found.audience)}, issued {visible(found.issued)}"
    )


def keygen(
    folder: Annotated[Path, typer.Argument(help="Folder for the two files.", file_okay=False)],
) -> None:
    """Make a pair of Ed25519 keys: the private one readable by you only, the public one to give."""
    private, public, name = make_keys(folder)
    print(f"private key: {private} (mode 0600; keep it)\npublic key: {public}\nid: {name}")


def _read(source: str) -> list[CellTable]:
    """The tables of FOLDER or FOLDER@name=value,name=value."""
    folder, at, strata = source.rpartition("@")
    if not at or "=" not in strata:
        return read_source(Path(source))
    return read_source(Path(folder), dict(map(_pair, strata.split(","))))


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def _print_tables(made: Release) -> None:
    table = Table(title=f"Release of {made.issued}", title_justify="left")
    for heading in ("table", "reports", "shown", "of", "suppressed as"):
        table.add_column(heading, justify="left" if heading == "table" else "right")
    for one in made.tables:
        seen = int(one.is_shown.sum())
        symbols = sorted({one.withheld, *one.symbols} - {""})
        reports = "withheld" if one.reports is None else f"{one.reports:,}"
        cells = (one.name, reports, f"{seen:,}", f"{len(one.cells):,}", ", ".join(symbols))
        table.add_row(*map(plain, cells))
    Console().print(table)


def _print_changes(found: list[Difference]) -> None:
    for one in found:
        place = f"{one.table}: {visible(one.cell)}" if one.cell else one.table
        arrow = " -> ".join(text for text in (one.before, one.after) if text)
        print(f"{one.change}: {place}: {visible(arrow)}")
