"""Whether scores differ by more than chance. docs/statistics.md explains what is tested and why."""
