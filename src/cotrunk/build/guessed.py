"""Data files -> a config that trains as it is, with what was seen as comments."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cotrunk.config.settings import Encoder, TaskPart, Train
from cotrunk.data.guess.tasks import GuessedTask, guess_tasks
from cotrunk.errors import UserError
from cotrunk.files import write_whole

COMMENT_COLUMN = 31
SHARING = [
    "[sharing]",
    '# encoder = "S3 I3"           # only the lower 3 of 6 layers; by default all are shared',
]


class GuessedConfig(NamedTuple):
    """``skipped``: for each task that skips bad rows, which they are and how many."""

    text: str
    skipped: dict[str, str]


def config_of_files(files: Sequence[Path], folder: Path) -> GuessedConfig:
    """A config in ``folder`` with one task for each label column of ``files``."""
    tasks = guess_tasks(files)
    skipped = {task.name: " and ".join(task.skipped) for task in tasks if task.has_bad_rows}
    return GuessedConfig(_text(files, tasks, folder), skipped)


def _text(files: Sequence[Path], tasks: Sequence[GuessedTask], folder: Path) -> str:
    names = ", ".join(file.name for file in files)
    encoder, train = Encoder(), Train()
    sampling = _line("sampling", train.sampling, "how often each task is drawn; or together, ...")
    blocks = [
        [f"# Made from {names}. Check the comments: they say what was seen, and why."],
        [
            "[encoder]",
            _line("weights", encoder.weights, "or a Hugging Face id, or a local folder"),
            _line("max_tokens", encoder.max_tokens, "longer texts are cut"),
        ],
        *([SHARING] if len(tasks) > 1 else []),
        *(_task(task, folder) for task in tasks),
        [
            "[train]",
            _line("epochs", train.epochs, ""),
            _line("batch", train.batch, "rows per batch"),
            _line("lr", train.lr, ""),
            _line("head_lr", train.head_lr, "of new weights"),
            *([sampling] if len(tasks) > 1 else []),
            _line("seed", train.seed, ""),
        ],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks) + "\n"


def write_config(files: Sequence[Path], path: Path | None) -> str:
    """The text of a config for ``files``, written to ``path`` if one is given."""
    if path is not None and path.is_dir():
        raise UserError(f"{path}: is a folder; give the name of a file")
    if path is not None and path.exists():
        raise UserError(f"{path}: already exists; choose another name, or remove it first")
    text = config_of_files(files, path.parent if path else Path()).text
    if path is not None:
        write_whole(path, text.encode())
    return text


def _task(task: GuessedTask, folder: Path) -> list[str]:
    keys: dict[str, object] = {"kind": task.kind, **task.options}
    if task.columns:
        keys["columns"] = list(task.columns)
    keys["text"] = list(task.texts)
    if task.label is not None:
        keys["label"] = task.label
    keys["train"] = _relative_to(folder, task.train)
    keys["dev"] = task.dev if isinstance(task.dev, float) else _relative_to(folder, task.dev)
    if task.test:
        keys["test"] = _relative_to(folder, task.test)
    if task.encoding != TaskPart.model_fields["encoding"].default:
        keys["encoding"] = task.encoding
    if task.has_bad_rows:
        keys["skip_bad_rows"] = True
    if task.has_gaps:
        keys["sparse_labels"] = True
    comments = {
        "columns": "the file has no header",
        "text": "a pair of texts" if len(task.texts) == 2 else "",
        "dev": "a share of the training rows" if isinstance(task.dev, float) else "",
    }
    seen = [f"# {_one_line(why)}" for why in task.why]
    commented = [key for key in keys if comments.get(key)]
    width = max((len(f"{key} = {_toml(keys[key])}") for key in commented), default=0)
    column = max(COMMENT_COLUMN, width + 2)  # comments of a block are below each other
    lines = [_line(key, value, comments.get(key, ""), column) for key, value in keys.items()]
    if task.id:
        line = _line("id", task.id, "names rows in predictions, instead of numbers", column)
        lines.append(line if task.id_is_certain else f"# {line}")
    return [*seen, f"[tasks.{task.name}]", *lines]


def _relative_to(folder: Path, file: Path) -> str:
    """Paths in a config are relative to the config."""
    return file.as_posix() if file.is_absolute() else Path(os.path.relpath(file, folder)).as_posix()


def _line(key: str, value: object, comment: str, column: int = COMMENT_COLUMN) -> str:
    line = f"{key} = {_toml(value)}"
    return f"{line:<{column - 1}} # {comment}" if comment else line


def _toml(value: object) -> str:
    """JSON and TOML write strings, numbers, booleans and lists of them alike."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
