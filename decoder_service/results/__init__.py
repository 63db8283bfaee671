"""Stored results: their visibility, pages, comparisons and downloads."""
