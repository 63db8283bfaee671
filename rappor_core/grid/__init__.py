"""Locations as values: grids of cells (quadkey, geohash, square, H3) over a fixed public box."""
