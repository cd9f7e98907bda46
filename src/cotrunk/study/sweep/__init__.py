"""Sweeps: many runs of one config, each with other choices and seeds."""
