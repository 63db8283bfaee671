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
    from decoder.comparison.windows import compare_windows
    from decoder.density.maps import (
        Density,
        DensityOptions,
        estimate_density,
        estimate_density_series,
    )
    from decoder.discovery.discovery import DiscoverOptions, Discovery, discover
    from decoder.flows.decoding import decode_flows
    from decoder.numbers.changes import NumberSeries, compare_numbers, decode_numbers_over_time
    from decoder.numbers.decoding import decode_numbers
    from decoder.numbers.tables import NumberDecoding
    from decoder.options import DecodeOptions
    from decoder.output.decoding_files import write_outputs
    from decoder.output.discovery_files import write_discovery
    from decoder.output.numbers_files import write_numbers
    from decoder.output.series_files import write_series
    from decoder.pipeline import decode
    from decoder.results.tables import Decoding, Detected
    from decoder.series.series import Series, decode_over_time

_HOMES = {
    "Candidates": "decoder.candidates.lists",
    "DecodeOptions": "decoder.options",
    "Decoding": "decoder.results.tables",
    "Density": "decoder.density.maps",
    "DensityOptions": "decoder.density.maps",
    "Detected": "decoder.results.tables",
    "NumberDecoding": "decoder.numbers.tables",
    "NumberSeries": "decoder.numbers.changes",
    "Series": "decoder.series.series",
    "DiscoverOptions": "decoder.discovery.discovery",
    "Discovery": "decoder.discovery.discovery",
    "compare_numbers": "decoder.numbers.changes",
    "compare_windows": "decoder.comparison.windows",
    "decode": "decoder.pipeline",
    "decode_flows": "decoder.flows.decoding",
    "decode_numbers": "decoder.numbers.decoding",
    "decode_numbers_over_time": "decoder.numbers.changes",
    "decode_over_time": "decoder.series.series",
    "discover": "decoder.discovery.discovery",
    "estimate_density": "decoder.density.maps",
    "estimate_density_series": "decoder.density.maps",
    "metric_candidates": "decoder.candidates.lists",
    "write_discovery": "decoder.output.discovery_files",
    "write_numbers": "decoder.output.numbers_files",
    "write_outputs": "decoder.output.decoding_files",
    "write_series": "decoder.output.series_files",
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
    "Series",
    "compare_numbers",
    "compare_windows",
    "decode",
    "decode_flows",
    "decode_numbers",
    "decode_numbers_over_time",
    "decode_over_time",
    "discover",
    "estimate_density",
    "estimate_density_series",
    "metric_candidates",
    "write_discovery",
    "write_numbers",
    "write_outputs",
    "write_series",
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
