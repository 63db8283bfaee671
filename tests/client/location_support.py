"""A location metric in each mode, and a device that takes fixes of it."""

from datetime import UTC, datetime

from client_sdk.location.period_visits import Visits
from client_sdk.location.recorder import LocationRecorder
from client_sdk.recording.recorder import Recorder
from client_sdk.storage.sqlite import MemoryState
from client_sdk.testing import FixedRandomness
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import MetricsFile
from rappor_core.wire.report import Report

DECLARED = """
[metrics.density]
kind = "location"
description = "The usual place of each part of the day"
owner = "maps@example.org"
expires = 2099-12-31
grid = "square"
box = [0, 0, 10, 10]
rows = 10
columns = 10
levels = [0, 1]
slots = ["night 22-6", "day 6-22"]
"""
MEMO = """mode = "memo"
num_bits = 16
num_cohorts = 4
mechanism = "l-osue"
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3
"""
SYMBOLS = """mode = "memo"
encoding = "symbol"
num_symbols = 2
num_cohorts = 4
epsilon_infinity = 2.0
epsilon_one = 1.0
"""
WINDOW = (
    'mode = "window"\nwindow = 3\nmax_reports = 4\nnum_bits = 16\nnum_cohorts = 4\nepsilon = 1.0\n'
)
FRESH = WINDOW.replace("window = 3\n", 'window = 3\nturn = "fresh"\nhold = 2\n')
ONCE = 'mode = "once"\nnum_bits = 16\nnum_cohorts = 4\nepsilon = 1.0\n'
MODES = {
    "memo": MEMO,
    "held": MEMO + "hold = 2\n",
    "symbols": SYMBOLS,
    "window": WINDOW,
    "fresh": FRESH,
    "once": ONCE,
}
START = datetime(2026, 11, 2, tzinfo=UTC)  # a Monday


def declared(mode: str, *extra: str) -> MetricsFile:
    return parse_metrics(DECLARED + MODES[mode] + "".join(extra))


def visits_of(file: MetricsFile, seed: int = 0, saved: str | None = None):  # type: ignore[no-untyped-def]
    sent: list[tuple[str, str, int]] = []
    secret = FixedRandomness(seed)(32)
    visits = Visits(file.parts("density"), secret, lambda *row: sent.append(row), saved)
    return visits, sent


def values(sent: list[tuple[str, str, int]], slot: str) -> list[str]:
    return [value for name, value, _ in sent if f"/{slot}/" in name]


class Phone:
    """A device that may restart: a state that lasts, and everything else made again."""

    def __init__(self, file: MetricsFile, seed: int) -> None:
        self.file, self.state = file, MemoryState(FixedRandomness(seed)(32))
        self.reports: list[Report] = []
        self.restart()

    def restart(self) -> None:
        self.recorder = Recorder(self.file.metrics, self.state, randomness=FixedRandomness(1))
        self.places = LocationRecorder(self.file, self.state, self.recorder, lambda: 0.0)

    def collect(self) -> None:
        self.reports += self.state.take_reports()
