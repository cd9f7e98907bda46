"""The libraries that exports are for. They are optional, and slow to import."""

from importlib.util import find_spec
from typing import Literal

from cotrunk.errors import UserError

Format = Literal["transformers", "sentence-transformers", "onnx"]
PACKAGES: dict[Format, tuple[str, ...]] = {
    "transformers": ("transformers",),
    "sentence-transformers": ("transformers", "sentence_transformers"),
    "onnx": ("onnx", "onnxruntime"),
}


def refuse_missing(to: Format, *more: str) -> None:
    """Every export is checked by the library it is for, so that must be installed."""
    missing = [name for name in (*PACKAGES[to], *more) if find_spec(name) is None]
    if missing:
        raise UserError(
            f"--to {to} needs the package {missing[0]} to check the export; "
            'run: pip install "cotrunk[export]"'
        )


def quieten_transformers() -> None:
    """No progress bars and no hints about training on our terminal."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
