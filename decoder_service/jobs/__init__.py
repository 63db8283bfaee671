"""Jobs: what one is to do, its checks before it is queued, its rows and its pages."""
