"""Experiment trackers, fed with the events of a training; one that fails never stops it."""
