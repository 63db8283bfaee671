"""Metrics as declared in `metrics.toml`: reading, validation and review."""
