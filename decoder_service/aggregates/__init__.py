"""Counts that people upload: kept by their digest."""
