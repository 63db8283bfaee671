"""Differences between windows (of shares, maps and numbers) and the tests of change."""
