"""Public static codes that make strings short: `prefix_code` uses one, `training` makes one."""
