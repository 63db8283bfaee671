"""`rappor simulate NAME`: experiments with a known truth, listed in one table."""

from collections.abc import Mapping
from typing import Any

from rappor_cli import experiments as lists
from rappor_cli import map_experiments as maps
from rappor_cli.calibration import decoder_calibration
from rappor_cli.experiment_runs import Experiment, command_of
from rappor_cli.options import command_group
from simulations.flows import FlowWorld

app = command_group(
    "Run a published or calibration experiment, from fresh draws.",
    "rappor simulate normal --reports 10000",
)
EXPERIMENTS: Mapping[str, tuple[Experiment, Mapping[str, Any]]] = {  # with the settings for --small
    "normal": (lists.normal, {}),
    "exponential": (lists.exponential, {}),
    "processes": (lists.processes, {"runs": 3}),
    "homepages": (lists.homepages, {"runs": 1}),
    "longitudinal": (lists.longitudinal, {"devices": 20_000}),
    "poisoning": (lists.poisoning, {"runs": 2}),
    "fleet": (lists.fleet, {"devices": 1_000_000, "weeks": 4}),
    "decoder-calibration": (decoder_calibration, {"runs": 1, "medium_runs": 0}),
    "location-coverage": (maps.location_coverage, {"devices": [20_000], "maps": 2}),
    "flow-coverage": (
        maps.flow_coverage,
        {
            "devices": [20_000],
            "world": [FlowWorld.AS_IS, FlowWorld.SHUFFLED],
            "draws": 1,
            "side": 2,
        },
    ),
}

for name, (experiment, small) in EXPERIMENTS.items():
    app.command(name)(command_of(name, experiment, small))
