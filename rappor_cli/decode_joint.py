"""`rappor decode --joint A B`: the joint table of two metrics by their names."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from decoder.options import DecodeOptions
from decoder.workflows.kinds import KindAnswer
from decoder.workflows.two_metrics import JointJob, fetch_joint, read_joint, run_joint
from rappor_cli.progress import stage_bars
from rappor_core.errors import shown

Joint = Annotated[
    tuple[str, str] | None,
    typer.Option(metavar="A B", help="Joint table of two metrics, rows of A, columns of B."),
]
List1 = Annotated[
    Path | None,
    typer.Option(help="With --joint: values of A, if it lists none.", exists=True),
]
List2 = Annotated[
    Path | None,
    typer.Option(help="With --joint: values of B, likewise.", exists=True),
]
_LISTS = {"candidates1", "candidates2"}
_TAKEN = _LISTS | {
    "aggregate", "alpha", "as_json", "collector", "first", "joint", "last", "level", "output",
    "repeats", "reports_by_device", "without_cohorts",
}  # fmt: skip


def refuse_others(context: typer.Context, joint: tuple[str, str] | None) -> None:
    """Refuse options of `rappor decode` that need `--joint`, or that do not go with it; the
    message names them."""
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        given = source is not None and source.name != "DEFAULT"
        if given and joint is None and option.name in _LISTS:
            raise typer.BadParameter(f"{option.opts[0]} goes with --joint A B")
        if given and joint is not None and option.name not in _TAKEN:
            raise typer.BadParameter(f"{option.opts[0]} does not go with --joint")
    if joint is not None and joint[0] == joint[1]:
        raise typer.BadParameter(f"--joint names {shown(joint[0])} twice: give two metrics")


def decode_joint(
    of: tuple[str, str],
    files: list[Path] | None,
    collector: str | None,
    window: tuple[date | None, date | None],
    lists: tuple[Path | None, Path | None],
    options: DecodeOptions,
    output: Path | None,
) -> KindAnswer:
    """Find the association or pair metric of two metrics, at the collector or in files, and
    decode it."""
    if collector:
        counts = fetch_joint(collector, of, *window)
    elif files:
        counts = read_joint(files, of)
    else:
        raise typer.BadParameter("--joint needs --collector URL or --aggregate FILE")
    with stage_bars() as progress:
        return run_joint(JointJob(of, counts, lists, options, output), progress)
