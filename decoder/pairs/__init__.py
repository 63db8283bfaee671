"""Joint tables of the two values of a pair metric."""
