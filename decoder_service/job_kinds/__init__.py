"""The kinds of jobs, one a module, with the templates of their results."""
