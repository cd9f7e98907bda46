"""Pages of the service: a playground for a run, and a table of runs."""
