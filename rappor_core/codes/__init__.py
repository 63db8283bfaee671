"""Public static codes that shorten strings: `prefix_code` applies a code, `training` builds one."""
