"""``cotrunk data check``: statistics of a config's data files."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from cotrunk.build.heads import pair_formats_of
from cotrunk.build.sources import SPLITS, existing_sources
from cotrunk.build.splits import splits_by
from cotrunk.build.tasks import fitted_tasks, tasks_of, worded_tasks
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document
from cotrunk.config.settings import read_settings
from cotrunk.data.batches.text import template_of, tokens_of
from cotrunk.data.reading.check import check, spelled_out
from cotrunk.data.reading.examples import Source
from cotrunk.data.reading.splits import Text
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.errors import Errors
from cotrunk.kinds.task import Task
from cotrunk.model.weights.pretrained import find, load_tokenizer


def data_check(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    settings = read_settings(path, arguments.set, unset=arguments.unset)
    tasks = fitted_tasks(settings, tasks_of(settings), path.parent)
    tasks = worded_tasks(settings, tasks, path.parent)
    pretrained = find(settings.encoder.weights, base=path.parent)
    pair_formats = pair_formats_of(settings, pretrained.shape, tasks)
    tokenizer = load_tokenizer(pretrained)
    template, tokenise = template_of(tokenizer), Tokeniser(tokenizer)
    document: Document = {"tasks": {}}
    errors, splits = Errors(), splits_by(settings, tasks, path.parent)
    sources: dict[str, dict[str, tuple[Source, ...]]] = {task.name: {} for task in tasks}
    for task in tasks:
        for split in SPLITS:
            with errors.gathered():
                files = existing_sources(settings, task, split, path.parent, splits)
                sources[task.name] |= {split: files} if files else {}
    errors.refuse()  # before reading rows: how a file is read depends on all tasks that share it
    for task in tasks:

        def lengths(rows: Sequence[tuple[Text, ...]], task: Task = task) -> list[int]:
            texts = [spelled_out(text) for row in rows for text in row]
            sizes = iter([len(ids) for ids in tokenise(texts)])
            return [
                tokens_of(template, [next(sizes) for _ in row], pair_formats[task.name])
                for row in rows
            ]

        with errors.gathered():
            document["tasks"][task.name] = asdict(check(task, sources[task.name], lengths))[
                "splits"
            ]
    errors.refuse()
    if not arguments.json:
        for task in tasks:
            tables.show_check(task, document["tasks"][task.name])
    return document
