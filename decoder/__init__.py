"""From noisy counts to frequencies with honest error bars.

decoding = decode(Aggregate.from_json(text), Candidates.from_file("words.txt"))
write_outputs(decoding, "out")
"""

from decoder.candidates.lists import Candidates, metric_candidates
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from decoder.reports.decoding_files import write_outputs
from decoder.reports.series_files import write_series
from decoder.results.tables import Decoding, Detected
from decoder.series.series import Series, compare_windows, decode_over_time

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
