"""Reserved values such as `other` and `no_data`, in a module of their own that is light to
import."""

OTHER = "other"  # of a location: outside the grid, past the cap, and no data unless it is apart
NO_DATA = "no_data"  # of a location that declares it: a slot and period without a fix
RESERVED = (OTHER, NO_DATA)  # in the order in which they follow the cells of a grid
