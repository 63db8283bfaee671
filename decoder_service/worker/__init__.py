"""Workers: they take jobs from the database, and do each in a process of its own."""
