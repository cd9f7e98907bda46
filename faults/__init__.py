"""Attacks on the promises of docs/reliability.md: ``python -m faults``."""
