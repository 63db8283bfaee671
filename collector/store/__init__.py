"""The tables of the collector and the statements on them, without HTTP and without the meaning
of metrics."""
