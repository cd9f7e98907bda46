"""Our results: studies' folders -> results/*.json -> docs/results.md and its pictures.

``collect FOLDER...`` concludes studies into results/NAME.json, beside what is there of other sweeps
(`cotrunk study NAME --only SWEEP` trains a study in parts), ``zero-shot --data DIR`` measures
the encoder before any training, and no command at all draws the page from these files alone.
"""
