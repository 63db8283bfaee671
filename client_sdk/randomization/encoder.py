"""An encoder of all metrics of one device, without a ledger."""

from collections.abc import Mapping
from datetime import date

from client_sdk.errors import UnknownMetricError
from client_sdk.randomization.key_derivation import SECRET_BYTES, Randomness, system_randomness
from client_sdk.randomization.metric_encoder import MetricEncoder
from rappor_core.errors import ParameterError
from rappor_core.metrics.metric import Metric
from rappor_core.wire.report import Report


class Encoder:
    """Encodes values of one device into reports. No ledger bounds distinct values and reports.

    metrics: the declared ones, by name.  secret: 32 bytes, private.
    randomness: the source of the instantaneous responses.
    """

    __slots__ = ("_encoders", "_metrics", "_randomness", "_secret")

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
        self._encoders: dict[str, MetricEncoder] = {}

    def encode(self, name: str, value: object, day: date) -> Report:
        """Make a fresh report of a value, by both rounds.

        Raises:
            UnknownMetricError: The metric is not declared.
            ValueRefusedError: The metric cannot encode the value.
        """
        encoder = self._encoders.get(name) or self.metric(name)
        bits = encoder.report_bits(encoder.value_bits(value))
        # as Report(...), which a generated constructor makes half as fast
        return tuple.__new__(Report, (name, encoder.params_id, encoder.cohort, day, bits))

    def metric(self, name: str) -> MetricEncoder:
        """Return the encoder of one metric on this device. Raises UnknownMetricError."""
        encoder = self._encoders.get(name)
        if encoder is None:
            if name not in self._metrics:
                raise UnknownMetricError(name, self._metrics)
            encoder = MetricEncoder(self._metrics[name], self._secret, self._randomness)
            self._encoders[name] = encoder
        return encoder
