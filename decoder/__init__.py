"""From noisy counts to frequencies with honest error bars.

decoding = decode(Aggregate.from_json(text), Candidates.from_file("words.txt"))
write_outputs(decoding, "out")
"""

from decoder.candidates import Candidates, metric_candidates
from decoder.options import DecodeOptions
from decoder.outputs import write_outputs
from decoder.over_time import Series, compare_windows, decode_over_time
from decoder.pipeline import decode
from decoder.results import Decoding, Detected
from decoder.series_outputs import write_series

__all__ = [
    "Candidates",
    "DecodeOptions",
    "Decoding",
    "Detected",
    "Series",
    "compare_windows",
    "decode",
    "decode_over_time",
    "metric_candidates",
    "write_outputs",
    "write_series",
]
