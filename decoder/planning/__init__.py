"""What a metric will show, and what it costs, before a report is sent: prediction, no data."""
