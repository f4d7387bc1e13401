"""The overlays and everything they share, as values: no input or output, no clock, no randomness that was not given."""
