"""From a value to the report that may leave the device: the main path of the mechanism.

An `Encoder` holds one device's secret and nothing else: no file, no thread, no clock. A fleet of
many light devices in one process is a list of encoders and one `client_sdk.Transport`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from functools import lru_cache

from client_sdk.errors import UnknownMetricError
from client_sdk.identity import DIGEST_BYTES, SECRET_BYTES, cohort_of, derive
from client_sdk.randomness import Randomness, system_randomness
from client_sdk.responses import InstantaneousRound, PermanentRound
from rappor_core.errors import ParameterError
from rappor_core.metrics import Metric
from rappor_core.report import Report, bits_to_bytes


class Encoder:
    """One device's way from values to reports.

    metrics: the declared ones, by name.  secret: 32 bytes, private.
    randomness: where the instantaneous responses come from.
    """

    __slots__ = ("_devices", "_metrics", "_randomness", "_secret")

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        secret: bytes,
        randomness: Randomness = system_randomness,
    ) -> None:
        """Raises ParameterError for a secret that has not 32 bytes."""
        if len(secret) != SECRET_BYTES:
            raise ParameterError(f"a secret has {SECRET_BYTES} bytes, not {len(secret)}")
        self._metrics = metrics
        self._secret = secret
        self._randomness = randomness
        self._devices: dict[str, MetricEncoder] = {}

    def encode(self, name: str, value: object, day: date) -> Report:
        """A fresh report of a value: the whole mechanism.

        Raises UnknownMetricError, and ValueRefusedError where the metric cannot encode the value.
        No ledger stands here: whoever calls must bound the number of distinct values and reports.
        """
        metric = self.metric(name)
        return metric.report(metric.value_bits(value), day)

    def metric(self, name: str) -> MetricEncoder:
        """This device's encoder of one metric. Raises UnknownMetricError."""
        encoder = self._devices.get(name)
        if encoder is None:
            if name not in self._metrics:
                raise UnknownMetricError(name, self._metrics)
            encoder = MetricEncoder(self._metrics[name], self._secret, self._randomness)
            self._devices[name] = encoder
        return encoder


class MetricEncoder:
    """One device's encoder of one metric.

    cohort: public.  line: the name that the ledger charges and responses are keyed by: sub-metrics
    `name/slot/level` share that of `name`, so that a value seen in several is paid once.
    `value_bits` and `digest` are private; only a `report` leaves.
    """

    __slots__ = (
        "_instantaneous",
        "_num_bits",
        "_permanent",
        "_secret",
        "cohort",
        "line",
        "metric",
        "params_id",
    )

    def __init__(self, metric: Metric, secret: bytes, randomness: Randomness) -> None:
        """Derive the cohort and prepare both rounds."""
        params = metric.params
        self.metric = metric
        self.params_id = _params_id(metric)
        self.line = base_name(metric.name)
        self.cohort = cohort_of(secret, self.line, params.num_cohorts)
        self._secret = secret
        self._num_bits = params.num_bits
        self._permanent = PermanentRound(
            secret, self.line, self.params_id, params.mechanism, params.num_bits
        )
        self._instantaneous = InstantaneousRound(params.mechanism, params.num_bits, randomness)

    def value_bits(self, value: object) -> int:
        """B of a value, k bits. Raises ValueRefusedError. Private."""
        return self.metric.value_bits(value, self.cohort)

    def report(self, bloom_bits: int, day: date) -> Report:
        """Both rounds over the bits of a value: a report, fresh at each call."""
        report_bits = self._instantaneous(self._permanent(bloom_bits))
        wire_bits = bits_to_bytes(report_bits, self._num_bits)
        return Report(self.metric.name, self.params_id, self.cohort, day, wire_bits)

    def permanent_bits(self, bloom_bits: int) -> int:
        """B' of B. Private: for the ledger's tests and for audits."""
        return self._permanent(bloom_bits)

    def digest(self, bloom_bits: int) -> bytes:
        """16 bytes that stand for a memoised response in the ledger. Private, and keyed.

        Two values with the same bits share one permanent response, and so one digest.
        """
        line, params_id = self.line.encode(), bytes.fromhex(self.params_id)
        bits = bits_to_bytes(bloom_bits, self._num_bits)
        return derive(self._secret, b"ledger", line, params_id, bits, length=DIGEST_BYTES)


def base_name(name: str) -> str:
    """The metric that a sub-metric `name/slot/level` belongs to; a plain name is its own."""
    return name.partition("/")[0]


@lru_cache(maxsize=4096)
def _params_id(metric: Metric) -> str:
    """Digested once a metric, not once a device."""
    return metric.params_id
