"""Location metrics on the device: from fixes to one usual cell a slot and period."""
