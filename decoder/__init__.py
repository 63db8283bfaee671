"""From noisy counts to frequencies with honest error bars.

decoding = decode(Aggregate.from_json(text), Candidates.from_file("words.txt"))
write_outputs(decoding, "out")

Names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoder.candidates.lists import Candidates, metric_candidates
    from decoder.comparison.windows import Series, compare_windows, decode_over_time
    from decoder.density.maps import (
        Density,
        DensityOptions,
        estimate_density,
        estimate_density_series,
    )
    from decoder.discovery.discovery import DiscoverOptions, Discovery, discover
    from decoder.flows.decoding import decode_flows
    from decoder.kinds.result import Question, Result
    from decoder.kinds.run import decode_counts, write_result
    from decoder.kinds.values import write_outputs
    from decoder.numbers.changes import NumberSeries, compare_numbers, decode_numbers_over_time
    from decoder.numbers.decoding import decode_numbers
    from decoder.numbers.quantities import NumberDecoding
    from decoder.options import DecodeOptions
    from decoder.pipeline import decode
    from decoder.results.tables import Decoding, Detected

_HOMES = {
    "Candidates": "decoder.candidates.lists",
    "DecodeOptions": "decoder.options",
    "Decoding": "decoder.results.tables",
    "Density": "decoder.density.maps",
    "DensityOptions": "decoder.density.maps",
    "Detected": "decoder.results.tables",
    "NumberDecoding": "decoder.numbers.quantities",
    "NumberSeries": "decoder.numbers.changes",
    "Series": "decoder.comparison.windows",
    "DiscoverOptions": "decoder.discovery.discovery",
    "Discovery": "decoder.discovery.discovery",
    "compare_numbers": "decoder.numbers.changes",
    "compare_windows": "decoder.comparison.windows",
    "decode": "decoder.pipeline",
    "decode_flows": "decoder.flows.decoding",
    "decode_numbers": "decoder.numbers.decoding",
    "decode_numbers_over_time": "decoder.numbers.changes",
    "decode_over_time": "decoder.comparison.windows",
    "discover": "decoder.discovery.discovery",
    "estimate_density": "decoder.density.maps",
    "estimate_density_series": "decoder.density.maps",
    "metric_candidates": "decoder.candidates.lists",
    "write_outputs": "decoder.kinds.values",
    "write_result": "decoder.kinds.run",
    "decode_counts": "decoder.kinds.run",
    "Question": "decoder.kinds.result",
    "Result": "decoder.kinds.result",
}

__all__ = [
    "Candidates",
    "DecodeOptions",
    "Decoding",
    "Density",
    "DensityOptions",
    "Detected",
    "DiscoverOptions",
    "Discovery",
    "NumberDecoding",
    "NumberSeries",
    "Question",
    "Result",
    "Series",
    "compare_numbers",
    "compare_windows",
    "decode",
    "decode_counts",
    "decode_flows",
    "decode_numbers",
    "decode_numbers_over_time",
    "decode_over_time",
    "discover",
    "estimate_density",
    "estimate_density_series",
    "metric_candidates",
    "write_outputs",
    "write_result",
]


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'decoder' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
