"""Many runs: sweeps, statistics, comparisons, reports."""
