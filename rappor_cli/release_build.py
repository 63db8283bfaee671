"""`rappor release build`, `audit`, `diff`, `verify` and `keygen`."""

import json
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from disclosure.anonymize import Hierarchy
from disclosure.release import (
    CellTable,
    Difference,
    Release,
    audit_releases,
    build_release,
    check_latest,
    compare_releases,
    load_policy,
    load_public_key,
    load_signer,
    make_keys,
    policy_changes,
    read_release,
    read_source,
    verify_release,
    write_release,
)
from rappor_cli import options as shared
from rappor_cli.numbers import read_day
from rappor_cli.progress import spinner
from rappor_cli.text import text_table
from rappor_core.text import visible


def build(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Folders of rappor decode, density or flows -o. FOLDER@region=north says which "
            "stratum its reports are of."
        ),
    ],
    policy: shared.Policy,
    output: shared.NewFolder,
    earlier: shared.EarlierReleases = None,
    key: shared.SigningKey = None,
    public_key: shared.PublicKeys = None,
    unsigned_earlier: shared.UnsignedEarlier = False,
    hierarchy: Annotated[
        list[str] | None, typer.Option(help="METRIC=FILE: the tree for a roll-up that lacks one.")
    ] = None,
    issued: shared.Issued = None,
) -> None:
    """Build a release from decoded tables, which are rounded, suppressed and signed.

    Earlier releases must be signed by a --public-key, unless --unsigned-earlier is given.
    """
    rules = load_policy(policy)
    sign, name = load_signer(key)
    tables = [table for source in sources for table in _read(source)]
    trees = _trees(hierarchy)
    before = read_earlier(earlier, public_key, unsigned=unsigned_earlier)
    day = day_of_issue(issued)
    with spinner("judging what the tables reveal together"):
        release = build_release(tables, rules, day, earlier=before, hierarchies=trees)
    files = write_release(release, output, sign, name)
    _print_tables(release)
    for note in release.notes[1:]:  # the first note explains releases
        print(visible(note))
    print(f"{'signed' if sign else 'not signed'}; files in {output}: {', '.join(files)}")


def audit(
    folder: shared.Release,
    earlier: shared.EarlierReleases = None,
    policy: Annotated[
        Path | None, typer.Option(help="Use this release.toml, not the one of each release.")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Show which facts a reader can infer although the release policies promise to hide them.

    Exit code 1 if a hidden number is known more closely than promised.
    """
    releases = [read_release(item) for item in (*(earlier or []), folder)]
    if policy is not None:
        rules = load_policy(policy)
        releases = [replace(item, policy=rules) for item in releases]
    with spinner("judging what the tables reveal together"):
        result = audit_releases(releases)
    if as_json:
        print(json.dumps(asdict(result)))
    else:
        for finding in result.findings:
            what = finding.cell or "reports"
            place = finding.table if finding.published else f"{finding.table}, less parts of it"
            print(f"{place}: {visible(what)}: {finding.low:.6g} to {finding.high:.6g}, promised "
                  f"{finding.promised:g}")  # fmt: skip
        print(
            f"{result.tables:,} tables, {result.rows:,} rows; {result.hidden:,} numbers are not "
            f"shown, and {len(result.findings):,} are known more closely than promised"
        )
        if result.widened:
            print(f"{result.widened:,} numbers contradict others by more than rounding")
    if result.findings:
        raise typer.Exit(1)


def diff(
    old: Annotated[Path, typer.Argument(help="Folder of a release.")],
    new: Annotated[Path, typer.Argument(help="Folder of another release.")],
    public_key: shared.PublicKeys = None,
    as_json: shared.Json = False,
) -> None:
    """Show, for approval, what NEW adds to OLD and what has changed."""
    trusted = [load_public_key(path) for path in public_key or []]
    first, second = (read_release(folder, trusted) for folder in (old, new))
    changes, rules = compare_releases(first, second), policy_changes(first, second)
    if as_json:
        print(json.dumps({"policy": rules, "changes": [asdict(item) for item in changes]}))
        return
    for name, (before, after) in rules.items():
        print(f"policy: {name}: {visible(str(before))} -> {visible(str(after))}")
    _print_changes(changes)
    print(f"{len(changes)} changes, {len(rules)} of the policy")


def verify(
    folder: shared.Release,
    public_key: shared.PublicKeys = None,
    digests_only: Annotated[
        bool, typer.Option(help="Without a key: detects corruption, not tampering.")
    ] = False,
    latest: Annotated[
        Path | None,
        typer.Option(help="A file that records verified releases, to reject older ones."),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Check a release's signature, and every file against its manifest; exit code 1 on failure."""
    if (not public_key) != digests_only:
        raise typer.BadParameter("give --public-key FILE, or --digests-only")
    if latest is not None and digests_only:
        raise typer.BadParameter(
            "--latest records signed releases, and anyone can write digests: give "
            "--public-key FILE with it"
        )
    release = verify_release(folder, [load_public_key(path) for path in public_key or []])
    if latest is not None:
        check_latest(release, latest)
    if as_json:
        print(json.dumps(asdict(release)))
        return
    origin = "signed by this key" if release.signed else "its author is not known"
    print(
        f"{len(release.files)} files as in the manifest; {origin}. Owner {visible(release.owner)}, "
        f"for {visible(release.audience)}, issued {visible(release.issued)}"
    )


def keygen(
    folder: Annotated[Path, typer.Argument(help="Folder for the two files.", file_okay=False)],
) -> None:
    """Create an Ed25519 key pair: a private key readable only by you, and a public key to share."""
    private, public, name = make_keys(folder)
    print(f"private key: {private} (mode 0600; keep it secret)\npublic key: {public}\nid: {name}")


def read_earlier(
    folders: list[Path] | None, public_keys: list[Path] | None, *, unsigned: bool
) -> list[Release]:
    """Read earlier releases, and verify their signatures (only their digests if `unsigned`)."""
    if folders and unsigned == bool(public_keys):
        raise typer.BadParameter(
            "--earlier needs the signer's --public-key FILE, or --unsigned-earlier"
        )
    trusted = [load_public_key(path) for path in public_keys or []]
    return [read_release(folder, trusted) for folder in folders or []]


def _read(source: str) -> list[CellTable]:
    folder, at, strata = source.rpartition("@")
    if not at or "=" not in strata:
        return read_source(Path(source))
    pairs = list(map(name_and_value, strata.split(",")))
    if len(dict(pairs)) < len(pairs):
        raise typer.BadParameter(f"{source!r} names a stratum twice")
    return read_source(Path(folder), dict(pairs))


def day_of_issue(text: str | None) -> date:
    """Parse the day of issue; today (UTC) if not given."""
    return read_day(text) or datetime.now(UTC).date()


def trees_of(pairs: list[str] | None, columns: list[str]) -> dict[str, Hierarchy]:
    """Parse COLUMN=FILE options into a tree for each column.

    Raises a usage error if a column is unknown.
    """
    trees = _trees(pairs)
    if unknown := set(trees) - set(columns):
        raise typer.BadParameter(f"--hierarchy of {min(unknown)!r}, which --columns does not name")
    return trees


def _trees(pairs: list[str] | None) -> dict[str, Hierarchy]:
    return {name: Hierarchy.load(Path(file)) for name, file in map(name_and_value, pairs or [])}


def name_and_value(text: str) -> tuple[str, str]:
    """Return the parts of NAME=VALUE. Raises a usage error if the text has another form."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
    return name, value


def _print_tables(release: Release) -> None:
    rows = []
    for table in release.tables:
        size = int(table.is_shown.sum())
        symbols = sorted({table.withheld, *table.symbols} - {""})
        reports = "withheld" if table.reports is None else f"{table.reports:,}"
        rows.append((table.name, reports, f"{size:,}", f"{len(table.cells):,}", ", ".join(symbols)))
    headings = ("table", "reports", "shown", "of", "suppressed as")
    Console().print(text_table(f"Release of {release.issued}", headings, rows))


def _print_changes(changes: list[Difference]) -> None:
    for item in changes:
        place = f"{item.table}: {visible(item.cell)}" if item.cell else item.table
        arrow = " -> ".join(text for text in (item.before, item.after) if text)
        print(f"{item.change}: {place}: {visible(arrow)}")
