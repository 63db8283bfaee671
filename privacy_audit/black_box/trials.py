"""Many trials of one scenario: worlds by a fair coin, fresh secrets, in worker processes.

A worker returns what the attacks look at and sums for the tests of the noise, never reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privacy_audit.black_box.lives import AuditedClient, Life, Value
from privacy_audit.black_box.noise_sums import NoiseSums, noise_sums
from privacy_audit.black_box.observations import Integers, features, observe
from privacy_audit.black_box.program_client import ProgramClient
from privacy_audit.black_box.scenario import Scenario
from privacy_audit.black_box.sdk_client import SdkClient
from privacy_audit.errors import client_errors
from rappor_core.metrics.compiled import read_compiled
from rappor_core.metrics.metrics_file import MetricsFile

REPORTS_A_CHUNK = 20_000


@dataclass(frozen=True)
class ClientSource:
    """Which client is audited; it can be sent to another process.

    metrics: the compiled metrics as text.  command: of a program; None: this project's SDK.
    """

    metrics: str
    command: str | None = None

    def file(self) -> MetricsFile:
        """The metrics file of these clients."""
        return read_compiled(self.metrics)

    def open(self) -> AuditedClient:
        """Start it. Raises AuditError."""
        file = self.file()
        return SdkClient(file) if self.command is None else ProgramClient(file, self.command)

    @contextmanager
    def started(self) -> Iterator[AuditedClient]:
        """Start it, and close it in the end.

        Raises AuditError where it does not start, AuditedClientError for what it raises later.
        """
        client = self.open()
        try:
            with client_errors():
                yield client
        finally:
            client.close()


class Trials(NamedTuple):
    """features: (n, number).  world: (n,).  wrong: trials with another number of reports than
    expected, or with more than one cohort.  noise: sums, or None.
    """

    features: NDArray[np.float32]
    world: Integers
    wrong: int
    noise: NoiseSums | None


def run_chunk(source: ClientSource, scenario: Scenario, number: int) -> Trials:
    """Run a number of trials of a scenario. Random throughout: no seed. Raises
    AuditedClientError."""
    with source.started() as client:
        return _run(client, source, scenario, number)


def _run(client: AuditedClient, source: ClientSource, scenario: Scenario, number: int) -> Trials:
    file = read_compiled(source.metrics)
    world = np.frombuffer(os.urandom(number), dtype=np.uint8).astype(np.int64) & 1
    secrets = [os.urandom(32) for _ in range(number)]
    lives, pairs = _lives(client, scenario, world, secrets)
    if scenario.box == "encoder":
        seen = client.encode(scenario.metric, lives, scenario.together)
    else:
        seen = client.record(scenario.metric, lives, scenario.renewed)
    observed = observe(file, scenario, world, seen, pairs)
    params = file.parts(scenario.metric)[0].params
    wrong = int((observed.number != scenario.expected).sum()) + observed.moved
    sums = noise_sums(params, observed) if scenario.noise else None
    return Trials(features(params, observed), world, wrong, sums)


def _lives(
    client: AuditedClient, scenario: Scenario, world: Integers, secrets: list[bytes]
) -> tuple[list[Life], list[tuple[Value, Value, Value]]]:
    """What each device records, and the three values that the attack looks at."""
    worlds, third = scenario.worlds, scenario.values[2]
    if not scenario.by_cohort:
        lives = [Life(s, worlds[w]) for s, w in zip(secrets, world.tolist(), strict=True)]
        return lives, [scenario.values] * len(lives)
    asked: list[tuple[bytes, Value]] = [(secret, scenario.values[0]) for secret in secrets]
    derived = client.derive(scenario.metric, asked)
    lives = []
    pairs: list[tuple[Value, Value, Value]] = []
    for secret, chosen, known in zip(secrets, world.tolist(), derived, strict=True):
        pair = scenario.by_cohort[known.cohort]
        lives.append(Life(secret, tuple((day, pair[chosen]) for day, _ in worlds[chosen])))
        pairs.append((*pair, third))
    return lives, pairs


def chunks(scenario: Scenario, trials: int) -> list[int]:
    """Sizes of chunks that hold about `REPORTS_A_CHUNK` reports each."""
    wide = max(1, scenario.num_bits // 128)
    size = max(50, REPORTS_A_CHUNK // max(len(scenario.worlds[0]), 1) // wide)
    whole, rest = divmod(trials, size)
    return [size] * whole + [rest] * (rest > 0)


def joined(parts: list[Trials]) -> Trials:
    """All trials of one scenario."""
    sums = [part.noise for part in parts if part.noise is not None]
    total = None
    for one in sums:
        total = one if total is None else total + one
    return Trials(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.world for part in parts]),
        sum(part.wrong for part in parts),
        total,
    )
