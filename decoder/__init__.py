"""From noisy counts to frequencies with honest error bars.

decoding = decode(Aggregate.from_json(text), Candidates.from_file("words.txt"))
write_outputs(decoding, "out")
"""

from decoder.candidates import Candidates, metric_candidates
from decoder.options import DecodeOptions
from decoder.outputs import write_outputs
from decoder.pipeline import decode
from decoder.results import Decoding, Detected

__all__ = [
    "Candidates",
    "DecodeOptions",
    "Decoding",
    "Detected",
    "decode",
    "metric_candidates",
    "write_outputs",
]
