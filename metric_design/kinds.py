"""`DESIGNS`: for each kind what is reviewed and planned before its metrics ship.

A new kind is a subclass of `KindDesign`, its instance, and a line here. None of it is needed on a
device.
"""

from __future__ import annotations

from importlib import import_module

from metric_design.kind_design import KindDesign

DESIGNS = {  # kind: where its instance is, loaded when it is first asked for
    "string": "metric_design.list_design:LISTED",
    "category": "metric_design.list_design:LISTED",
    "boolean": "metric_design.list_design:LISTED",
    "number": "metric_design.number_kind:NUMBER",
    "pair": "metric_design.pair_kind:PAIR",
    "discover": "metric_design.discover_kind:DISCOVER",
    "location": "metric_design.location_kind:LOCATION",
    "flow": "metric_design.flow_kind:FLOW",
}


def kind_design(name: str) -> KindDesign:
    """Return what is reviewed and planned of a kind; of one without a line, nothing of its own."""
    if name not in DESIGNS:
        return KindDesign()
    module, _, instance = DESIGNS[name].partition(":")
    design: KindDesign = getattr(import_module(module), instance)
    return design
