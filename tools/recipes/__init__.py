"""The study behind the default settings: twelve recipes on several sets of tasks.

``python -m tools.recipes search DATA OUT`` writes the task sets and trains every recipe on each
with one seed; ``rank OUT`` shows which recipe loses least over all sets; ``confirm OUT RECIPE``
trains that recipe and the best one of each set with three other seeds; ``report OUT RECIPE -o
results/recipes.json`` compares them. Repeat a command to continue it. DATA is a folder with
``cs224n`` and ``wnut17``; results have scores, never texts.
"""
