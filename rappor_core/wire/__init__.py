"""Reports and batches: their fields, and their exact bytes as JSON and in binary."""
