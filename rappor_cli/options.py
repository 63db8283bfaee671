"""The options and arguments that several commands share, each with one name, type and help text.

Commands use these definitions, so that an option means the same everywhere.
"""

from pathlib import Path
from typing import Annotated

import typer

from rappor_core.aggregate import MAX_COUNT


def command_group(text: str, example: str) -> typer.Typer:
    """Return a command group whose help ends with a working example.

    Args:
        text: The purpose of the group's commands.
        example: A whole command line that begins with `rappor`.
    """
    return typer.Typer(
        help=text,
        epilog=f"Example: {example}",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def between(level: float) -> float:
    """Check that a level is between 0 and 1. Raises typer.BadParameter otherwise."""
    if not 0 < level < 1:
        raise typer.BadParameter(f"'{level:g}' is not between 0 and 1")
    return level


def bounded_repeats(repeats: float | None) -> float | None:
    """Require at least one report per device, and no more than an aggregate can count."""
    if repeats is not None and not 1 <= repeats <= MAX_COUNT:
        raise typer.BadParameter(
            f"{repeats:g} reports per device are not from 1 to the {MAX_COUNT:,} that an "
            "aggregate can count; give sum r^2 / sum r, where device i sent r_i of them"
        )
    return repeats


# Output options: what is printed, and where files are written.
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
FileOrScreen = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; else standard output.")
]
OutputFile = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
OutputCsv = Annotated[Path, typer.Option("--output", "-o", help="CSV file to write.")]
OutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for files; created if missing.")
]
ExperimentFolder = Annotated[Path, typer.Option("--output", "-o", help="Folder for the manifest.")]
NewFile = Annotated[Path, typer.Option("--output", "-o", help="A new file.")]
NewFolder = Annotated[Path, typer.Option("--output", "-o", help="A folder that does not exist.")]

# Sources for counts.
AggregateFiles = Annotated[
    list[Path] | None,
    typer.Option("--aggregate", help="Aggregate file of the metric; may be repeated.", exists=True),
]
Collector = Annotated[
    str | None,
    typer.Option("--collector", help="URL of a collector; the key comes from RAPPOR_KEY."),
]
DATABASE_VARIABLE = "RAPPOR_DATABASE"
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar=DATABASE_VARIABLE,
        help="A collector's database, e.g. sqlite:///rappor.sqlite.",
    ),
]
ServedDatabase = Annotated[
    str | None,
    typer.Option("--database", help="sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME."),
]
Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port; 0 picks a free one.")]
KeyId = Annotated[str, typer.Argument(help="The 16 digits in the middle of the key.")]

# Metrics and days.
MetricsFile = Annotated[Path, typer.Argument(help="A metrics.toml.")]
Metric = Annotated[str, typer.Argument(help="Name of the metric.")]
ParamsId = Annotated[str | None, typer.Option(help="Version; default: the current one.")]
FirstDay = Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD.")]
LastDay = Annotated[str | None, typer.Option("--to", help="Last day, YYYY-MM-DD.")]

# Decoding and experiments.
Alpha = Annotated[float, typer.Option(callback=between, help="Level of the correction.")]
Level = Annotated[float, typer.Option(callback=between, help="Level of the intervals.")]
Repeats = Annotated[
    float | None,
    typer.Option(callback=bounded_repeats, help="Reports per device: sum r^2 / sum r."),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Repeat a run exactly; default: random.")]
Engine = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="ENGINE",
        help="Where tasks run: local[:N], dask:tcp://HOST:PORT, spark[:MASTER], or a function "
        "package.module:name that returns an Executor.",
    ),
]
BehindRelay = Annotated[bool, typer.Option("--relay", help="Show the effect of a relay.")]

# Releases.
Release = Annotated[Path, typer.Argument(help="Folder of a release.")]
Policy = Annotated[Path, typer.Option(help="release.toml.")]
SigningKey = Annotated[Path | None, typer.Option("--signing-key", help="Private signing key, PEM.")]
PublicKeys = Annotated[
    list[Path] | None,
    typer.Option("--public-key", help="A public key of the owner, PEM; may be repeated."),
]
EarlierReleases = Annotated[
    list[Path] | None,
    typer.Option(help="Earlier releases, all of them, oldest first."),
]
UnsignedEarlier = Annotated[
    bool, typer.Option(help="Earlier releases are not signed: check their digests only.")
]
Issued = Annotated[str | None, typer.Option(help="Day of issue, YYYY-MM-DD; default: today (UTC).")]
Ledger = Annotated[Path, typer.Option(help="Ledger of the data set: rappor release ledger.")]
Table = Annotated[Path, typer.Argument(help="A CSV file with a header, and one row per person.")]
