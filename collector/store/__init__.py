"""The tables of the collector and their statements, without HTTP or knowledge of metrics."""
