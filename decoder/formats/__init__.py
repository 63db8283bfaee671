"""Files of others: google/rappor, and small tables that an analyst gives."""
