"""Workers: processes that take jobs from the database and run each in a separate process."""
