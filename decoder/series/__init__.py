"""Decodings over time: series of windows and tests for change."""
