"""Multiple testing, intervals and diagnostics, all on arrays."""
