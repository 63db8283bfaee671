"""Reports and batches: their fields, and their exact encoding in JSON and binary form."""
