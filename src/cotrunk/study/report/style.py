"""The style sheet of pages, with the colours of light and dark."""

from functools import cache
from importlib.resources import files

from cotrunk.study.report.colours import DARK, LIGHT


@cache
def style() -> str:
    source = files("cotrunk.study.report").joinpath("templates", "page.css").read_text("utf-8")
    for name, colours in (("@LIGHT@", LIGHT), ("@DARK@", DARK)):
        source = source.replace(name, " ".join(f"--{key}: {c};" for key, c in colours.items()))
    return source
