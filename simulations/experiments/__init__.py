"""Experiments with a known truth: the RAPPOR paper, calibration of the decoder, and the demo."""
