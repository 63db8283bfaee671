"""Stored results: who sees them, their pages, comparisons and downloads."""
