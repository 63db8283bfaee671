"""Decode noisy bit counts into frequencies with confidence intervals.

    decoding = decode(Aggregate.from_json(text), Candidates.from_file("words.txt"))
    write_outputs(decoding, "out")

Importing the package is cheap: each public name is loaded when it is first used."""

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

_NAMES = {  # by the module that contains them
    "decoder.candidates.lists": "Candidates metric_candidates",
    "decoder.comparison.windows": "Series compare_windows decode_over_time",
    "decoder.density.maps": "Density DensityOptions estimate_density estimate_density_series",
    "decoder.discovery.discovery": "DiscoverOptions Discovery discover",
    "decoder.flows.decoding": "decode_flows",
    "decoder.kinds.result": "Question Result",
    "decoder.kinds.run": "decode_counts write_result",
    "decoder.kinds.values": "write_outputs",
    "decoder.numbers.changes": "NumberSeries compare_numbers decode_numbers_over_time",
    "decoder.numbers.decoding": "decode_numbers",
    "decoder.numbers.quantities": "NumberDecoding",
    "decoder.options": "DecodeOptions",
    "decoder.pipeline": "decode",
    "decoder.results.tables": "Decoding Detected",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Candidates", "DecodeOptions", "Decoding", "Density", "DensityOptions", "Detected",
    "DiscoverOptions", "Discovery", "NumberDecoding", "NumberSeries", "Question", "Result",
    "Series", "compare_numbers", "compare_windows", "decode", "decode_counts", "decode_flows",
    "decode_numbers", "decode_numbers_over_time", "decode_over_time", "discover",
    "estimate_density", "estimate_density_series", "metric_candidates", "write_outputs",
    "write_result",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'decoder' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
