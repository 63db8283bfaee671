"""The device: randomise a value before it leaves, queue it, send it."""
