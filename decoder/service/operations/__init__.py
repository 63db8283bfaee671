"""What people may do, for the API, the pages and the command line alike."""
