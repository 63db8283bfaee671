"""Stored results: who may see them, their pages, comparisons and downloads."""
