"""Writes the sample texts that lie in the package; not part of the wheel."""
