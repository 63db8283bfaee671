"""What is kept, and how: tables, connections, counters. Knows nothing of HTTP or of metrics."""
