"""Jobs: their specification, checks before they are queued, rows, routes and pages."""
