"""What counts say, by kind of metric: one class a kind, looked up by name."""
