"""The shared parts of the benchmarks: comparisons with named rivals, and measured commands."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

OURS = "ours"


class Used(NamedTuple):
    """The resources that a process used: processor seconds, and GiB of peak memory."""

    processor: float
    peak: float


class Comparison:
    """The record of one side of a comparison; the rival is a different test in the same group."""

    def __init__(self, benchmark: BenchmarkFixture) -> None:
        self._benchmark = benchmark

    def name(self, measured: str, who: str, **more: Any) -> None:
        """Set the name of the measured quantity, and the measured side (`OURS` or a rival).

        `more` may contain the `target` of the ratio, a `note`, `more=True` if higher is better, and
        the `unit` of `values`."""
        self._benchmark.group = measured
        self._benchmark.extra_info.update(who=who, **more)

    def times(self, action: Callable[[], Any], rounds: int, iterations: int = 1) -> None:
        """Measure an action's wall-clock time, after one warm-up round."""
        self._benchmark.pedantic(
            action, rounds=rounds, iterations=iterations, warmup_rounds=int(rounds > 1)
        )

    def values(self, measure: Callable[[int], float], rounds: int, unit: str) -> None:
        """Record figures other than times, one per round; `measure` receives the round number."""
        figures: list[float] = []
        numbers = iter(range(rounds))
        self._benchmark.pedantic(lambda: figures.append(measure(next(numbers))), rounds=rounds)
        self._benchmark.extra_info.update(values=figures, unit=unit)

    def cuts(self, places: Mapping[str, float]) -> None:
        """Record quantiles (`places`: name to probability) of all rounds' times, one row each."""
        data = self._benchmark.stats.stats.sorted_data
        figures = {name: data[int(len(data) * place)] for name, place in places.items()}
        self._benchmark.extra_info.update(cuts=figures)


@pytest.fixture
def comparison(benchmark: BenchmarkFixture) -> Comparison:
    """Return the object that stores the measurements of one contestant."""
    return Comparison(benchmark)


def child(command: Sequence[Any], **options: Any) -> Used:
    """Run a command in a separate process. Raises CalledProcessError if it fails."""
    words = [*map(str, command)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024**2)
