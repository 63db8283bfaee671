"""One decoder class for each kind of metric, looked up by name."""
