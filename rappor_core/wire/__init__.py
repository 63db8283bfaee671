"""Reports and batches: their fields, and their exact bytes in JSON and binary form."""
