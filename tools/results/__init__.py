"""Our results: studies' folders -> results/runs/*.json -> results/*.json -> docs/results.md.

``collect FOLDER...`` adds a study's finished runs to results/runs/NAME.json and concludes all of
them into results/NAME.json, so a study can be trained in parts and on several machines (`cotrunk
study NAME --only SWEEP`). ``zero-shot --data DIR`` measures the encoder before any training, and no
command at all draws the page and its pictures from results/*.json alone.
"""
