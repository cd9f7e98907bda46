"""Benchmarks of Cotrunk against other libraries: ``python -m bench``."""
