"""Many trials of one scenario: worlds by a fair coin, fresh secrets."""

import os
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box.noise_sums import NoiseSums, noise_sums
from privacy_audit.black_box.observations import features, observe
from privacy_audit.black_box.program_client import ClientSource, Event, Life
from privacy_audit.black_box.scenarios import Scenario
from privacy_audit.responses import Integers

REPORTS_A_CHUNK = 20_000


class Trials(NamedTuple):
    """What the attacks look at, and sums for the tests of the noise; never reports.

    features: (n, number).  world: (n,).  wrong: trials with another number of reports than
    expected, or with more than one cohort.  noise: sums, or None.
    """

    features: NDArray[np.float32]
    world: Integers
    wrong: int
    noise: NoiseSums | None


def run_chunk(source: ClientSource, scenario: Scenario, number: int) -> Trials:
    """Run a number of trials of a scenario. Random throughout: no seed.

    Raises:
        AuditedClientError: If the client fails.
    """
    file = source.file()
    world = np.frombuffer(os.urandom(number), dtype=np.uint8).astype(np.int64) & 1
    worlds = [
        tuple(Event(scenario.metric, day, value) for day, value in steps)
        for steps in scenario.worlds
    ]
    lives = [Life(os.urandom(32), worlds[chosen]) for chosen in world.tolist()]
    with source.started() as client:
        if scenario.part == "encoder":
            seen = client.encode(lives, scenario.together)
        else:
            seen = client.record(lives)
    observed = observe(file, scenario, world, seen)
    params = file.metrics[scenario.metric].params
    wrong = int((observed.number != scenario.expected).sum()) + observed.moved
    sums = noise_sums(params, observed) if scenario.noise else None
    return Trials(features(params, observed), world, wrong, sums)


def chunks(scenario: Scenario, trials: int) -> list[int]:
    """List sizes of chunks that hold about `REPORTS_A_CHUNK` reports each."""
    wide = max(1, scenario.num_bits // 128)
    size = max(50, REPORTS_A_CHUNK // max(len(scenario.worlds[0]), 1) // wide)
    whole, rest = divmod(trials, size)
    return [size] * whole + [rest] * (rest > 0)


def joined(parts: list[Trials]) -> Trials:
    """Join the chunks of one scenario."""
    sums = [part.noise for part in parts if part.noise is not None]
    return Trials(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.world for part in parts]),
        sum(part.wrong for part in parts),
        sum(sums[1:], sums[0]) if sums else None,
    )
