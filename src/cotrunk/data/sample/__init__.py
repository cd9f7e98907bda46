"""Three small task files written for this project: sentiment, paraphrase and similarity."""

from pathlib import Path


def folder() -> Path:
    """The folder of the six CSV files, named ``{task}-{train,dev}.csv``."""
    return Path(__file__).parent
