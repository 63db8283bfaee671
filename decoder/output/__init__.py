"""Output files: CSV, JSON, HTML, SVG, PNG and GeoJSON for decodings, series and maps."""
