"""Location metrics on the device: from fixes to one usual cell per slot and period."""
