"""Output files: CSV, JSON, HTML, SVG, PNG and GeoJSON of decodings, series and maps."""
