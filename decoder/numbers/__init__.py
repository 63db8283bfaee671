"""Number metrics: curves, quantiles and means from counts at cut points of the number line."""
