"""File formats of others: google/rappor's, and small tables that an analyst gives."""
