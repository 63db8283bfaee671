"""Where aggregates come from: files, or a collector over HTTP."""
