"""Workers: processes that take jobs from the database and run each in a process of its own."""
