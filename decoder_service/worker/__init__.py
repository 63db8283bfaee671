"""Workers, which claim jobs from the database and run each job in a separate process."""
