"""A made-up kind, whose devices say whether a whole number is odd."""

from rappor_core.metrics.kinds import wrong_type
from rappor_core.metrics.listed_kinds import Boolean
from rappor_core.metrics.metric import Metric


class Parity(Boolean):
    """The kind of metric whose value is a whole number, in one bit."""

    name = "parity"
    in_words = "whether a number is odd"

    def index(self, metric: Metric, value: object) -> int:
        """1 of an odd number."""
        if not isinstance(value, int):
            raise wrong_type(metric, value, "a whole number")
        return value % 2


PARITY = Parity()
