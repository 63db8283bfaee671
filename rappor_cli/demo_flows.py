"""`rappor demo flows`: flows of a made-up city, from drawn counts to a page, beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from decoder.output.flows_map import side_text
from decoder.output.number_text import interval
from decoder.results.warnings import percent
from decoder.typing import Floats
from decoder.workflows.flows import FlowsJob, run_flows
from decoder.workflows.kinds import FetchedCounts, KindAnswer
from rappor_cli.progress import stage_bars
from rappor_cli.text import plain
from rappor_core.metrics.flow import Flow
from simulations.flows.city import city_matrix, city_metric, draw_flows

SHOWN = 20


def demo_flows(
    devices: Annotated[int, typer.Option(min=10_000, help="Devices that answer once.")] = 200_000,
    epsilon: Annotated[
        float, typer.Option(min=0.5, max=6, help="Nats of a device, for life.")
    ] = 2.0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Repeat a run exactly. Never for real devices.")
    ] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the files; made if missing.")
    ] = Path("demo-flows"),
) -> None:
    """Who sleeps here and works there in a made-up city: drawn counts, files and a page."""
    rng, console = np.random.default_rng(seed), Console(markup=False)
    metric = city_metric(epsilon, devices)
    matrix = city_matrix(metric.details, rng)
    counts = draw_flows(metric, matrix, devices, rng)
    with stage_bars() as progress:
        answer = run_flows(FlowsJob(FetchedCounts((counts,)), output=output), progress)
    console.print(_table(answer, metric.details, matrix))
    for note in answer.notes:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(f"page: {output / 'flows.html'}", soft_wrap=True)


def _table(answer: KindAnswer, flow: Flow, matrix: Floats) -> Table:
    """The flows detected, with their true shares."""
    found = answer.content
    truth = matrix.reshape(flow.num_sides, -1)
    detected = [row for row in found["flows"] if row["detected"]]
    table = Table(
        title=f"{found['num_detected']:,} flows detected, {percent(found['detected_share'])} of "
        f"people; one of {percent(found['detectable_share'])} is found 8 times in 10"
    )
    for heading in ("from", "to", "km", "true", "of people", "95 % interval"):
        table.add_column(heading, justify="left" if heading in ("from", "to") else "right")
    for row in detected[:SHOWN]:
        true = truth[flow.side_index[row["origin"]], flow.side_index[row["destination"]]]
        cells = [side_text(row, "origin"), side_text(row, "destination"), f"{row['km']:.3g}",
                 percent(float(true)), percent(row["estimate"]),
                 interval(row["low"], row["high"])]  # fmt: skip
        table.add_row(*map(plain, cells))
    if len(detected) > SHOWN:
        table.caption = f"the {SHOWN} largest; flows.csv has all"
    return table
