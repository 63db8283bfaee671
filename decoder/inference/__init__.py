"""Multiple testing, intervals and diagnostics. Arrays in, arrays out."""
