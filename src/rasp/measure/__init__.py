"""Measure: what a run takes on a device that is here, beside what was predicted of it."""
