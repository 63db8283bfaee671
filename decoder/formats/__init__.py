"""Other file formats: google/rappor's files, and small tables from an analyst."""
