"""Joint tables of two variables: of pair metrics, and of two metrics whose reports are linked."""
