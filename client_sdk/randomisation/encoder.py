"""From a value to the report that may leave the device: the main path of the mechanism.

An `Encoder` holds one device's secret and nothing else: no file, no thread, no clock. A `Recorder`
has one, and asks the ledger between its two steps, `value_bits` and `report_bits`. A fleet of many
light devices in one process is a list of encoders and one `client_sdk.Transport`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from client_sdk.errors import UnknownMetricError
from client_sdk.randomisation.key_derivation import SECRET_BYTES
from client_sdk.randomisation.metric_encoder import MetricEncoder
from client_sdk.randomisation.randomness import Randomness, system_randomness
from rappor_core.errors import ParameterError
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from datetime import date

    from rappor_core.wire.report import Report


class Encoder:
    """Encodes values of one device into reports, without a ledger.

    metrics: the declared ones, by name.  secret: 32 bytes, private.
    randomness: where the instantaneous responses come from.
    """

    __slots__ = ("_devices", "_metrics", "_randomness", "_report", "_secret")

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        secret: bytes,
        randomness: Randomness = system_randomness,
    ) -> None:
        """Raises ParameterError for a secret that has not 32 bytes."""
        if len(secret) != SECRET_BYTES:
            raise ParameterError(
                f"a secret has {SECRET_BYTES} bytes, not {len(secret)}: make it with "
                "new_secret(system_randomness), once for a device"
            )
        self._metrics = metrics
        self._secret = secret
        self._randomness = randomness
        self._devices: dict[str, MetricEncoder] = {}
        self._report: type[Report] | None = None

    def encode(self, name: str, value: object, day: date) -> Report:
        """Make a fresh report of a value, by both rounds.

        Raises UnknownMetricError, and ValueRefusedError where the metric cannot encode the value.
        No ledger stands here: whoever calls must bound the number of distinct values and reports
        (`client_sdk.Recorder` does).
        """
        report = self._report or self._load()
        device = self._devices.get(name) or self.metric(name)
        bloom_bits = device.value_bits(value)
        bits = device.report_bits(bloom_bits)
        # as Report(...), which a generated constructor makes half as fast
        return tuple.__new__(report, (name, device.params_id, device.cohort, day, bits))

    def _load(self) -> type[Report]:
        """Import what an app that records does not need, once: it costs as much as a hash."""
        from rappor_core.wire.report import Report

        self._report = Report
        return Report

    def metric(self, name: str) -> MetricEncoder:
        """The encoder of one metric on this device. Raises UnknownMetricError."""
        device = self._devices.get(name)
        if device is None:
            if name not in self._metrics:
                raise UnknownMetricError(name, self._metrics)
            device = MetricEncoder(self._metrics[name], self._secret, self._randomness)
            self._devices[name] = device
        return device
