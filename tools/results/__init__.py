"""Our results: studies' folders -> results/*.json -> docs/results.md and its pictures.

``collect FOLDER...`` concludes studies into results/NAME.json, ``zero-shot --data DIR`` measures
the encoder before any training, and no command at all draws the page from these files alone.
"""
