"""Sources of aggregates: files, or a collector over HTTP."""
