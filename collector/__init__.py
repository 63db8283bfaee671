"""The collector: takes reports over HTTP, keeps counters, serves aggregates of closed days.

Layers, imports pointing inwards: app -> routes -> service -> store -> models.
"""
