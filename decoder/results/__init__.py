"""`Decoding` and how it is built: table, warnings, intervals after selection."""
