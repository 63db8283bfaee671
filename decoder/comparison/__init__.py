"""Differences between windows (in shares, maps and numbers), and tests for change."""
