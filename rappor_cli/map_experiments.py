"""The experiments of `rappor simulate` on maps and flows."""

from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from decoder.formats.density_inputs import read_known_flows
from rappor_cli import options as shared
from rappor_cli.experiment_runs import ExperimentRun
from rappor_cli.progress import progress_bar
from rappor_cli.text import print_note
from rappor_core.errors import ParameterError
from rappor_core.metrics.compiled import load_metrics
from rappor_core.metrics.flow import Flow
from rappor_core.metrics.metric import Metric
from simulations.flows import (
    FLOW_HEADINGS,
    FlowWorld,
    city_matrix,
    city_metric,
    flow_lines,
    in_world,
)
from simulations.flows import flow_coverage as cover_flows
from simulations.location import COVERAGE_HEADINGS, coverage_line, has_map, map_coverage
from simulations.outcome import ExperimentOutcome


def location_coverage(
    run: ExperimentRun,
    metrics: shared.MetricsFile,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Number of devices; may be repeated.")
    ] = [20_000, 100_000, 1_000_000],  # noqa: B006 - typer copies it
    maps: Annotated[int, typer.Option(min=1, help="Maps of each metric and size.")] = 20,
) -> ExperimentOutcome:
    """Measure how often the intervals of individual cells contain the truth, on simulated maps.

    The maps are for the metrics in a file.
    """
    declared = [one for one in load_metrics(metrics).declared if has_map(one)]
    chosen = [one for one in declared if not metric or one.base_name in metric]
    if not chosen:
        raise ParameterError(f"{metrics} has no such metric of kind 'location' with a map")

    rows = []
    with progress_bar("maps", len(chosen) * len(devices) * maps) as advance:
        for one, size in product(chosen, devices):
            result = asdict(map_coverage(one, size, maps, run.rng, advance))
            rows.append({"metric": one.base_name, "devices": size} | result.pop("parts") | result)
    note = "by map: mean over the maps; a map without a detected cell counts as 1"
    return ExperimentOutcome(rows, COVERAGE_HEADINGS, list(map(coverage_line, rows)), [note])


def flow_coverage(
    run: ExperimentRun,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(min=0.5, max=6, help="Nats per device lifetime; may be repeated."),
    ] = None,
    devices: Annotated[
        list[int], typer.Option(min=1_000, help="Number of devices; may repeat.")
    ] = [100_000],  # noqa: B006
    world: Annotated[
        list[FlowWorld] | None, typer.Option(help="How people move; repeatable.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each setting.")] = 10,
    cohorts: Annotated[
        int | None, typer.Option(min=10, help="Cohorts of the simulated city, a multiple of 10.")
    ] = None,
    side: Annotated[int, typer.Option(min=2, max=7, help="Zones per side, two cells each.")] = 5,
    metrics: Annotated[
        Path | None,
        typer.Option(help="metrics.toml with your metric of kind flow, in place of the city's."),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The name of the metric in that file.")] = None,
    flows: Annotated[
        Path | None,
        typer.Option(help="CSV of the true matrix: origin,destination,count by names of cells."),
    ] = None,
) -> ExperimentOutcome:
    """Measure how often intervals for flows, zones, cells and bands contain the truth."""
    if metrics and (epsilon or cohorts):
        raise typer.BadParameter("--epsilon and --cohorts go with the simulated city")
    settings = list(product(epsilon or [2.0], devices, world or [FlowWorld.AS_IS]))
    more = {} if cohorts is None else {"num_cohorts": cohorts}

    rows = []
    with progress_bar("draws", len(settings) * draws) as advance:
        for nats, number, one in settings:
            if metrics:
                chosen = _flow_metric(metrics, metric)
            else:
                chosen = city_metric(nats, number, rows=side, columns=side, **more)
            if flows is None:
                matrix = city_matrix(chosen.details, run.rng)
            else:
                known = read_known_flows(flows, chosen.details, print_note)
                matrix = np.asarray(known / known.sum())
            matrix = in_world(matrix, chosen.details, one, run.rng)
            result = cover_flows(chosen, matrix, number, draws, run.rng, advance)
            nats = chosen.params.epsilon_one
            rows.append({"world": one, "epsilon": nats, "devices": number} | asdict(result))
    lines = [line for row in rows for line in flow_lines(row)]
    return ExperimentOutcome(rows, FLOW_HEADINGS, lines)


def _flow_metric(path: Path, name: str | None) -> Metric:
    """Return the flow metric in a file. Raises ParameterError unless exactly one matches."""
    found = [metric for metric in load_metrics(path).declared if isinstance(metric.details, Flow)]
    found = [one for one in found if name in (None, one.name)]
    if len(found) != 1:
        raise ParameterError(
            f"{path} has {len(found)} metrics of kind 'flow'"
            + (f" named {name!r}" if name else ": name one with --metric")
        )
    return found[0]
