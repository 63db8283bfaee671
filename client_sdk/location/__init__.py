"""Location metrics on the device, which reduce fixes to one usual cell per slot and period."""
