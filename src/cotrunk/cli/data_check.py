"""``cotrunk data check``: statistics of a config's data files."""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from cotrunk.build.heads import pair_formats_of
from cotrunk.build.read import read_reporting_all
from cotrunk.build.sources import absent_files, sources_of
from cotrunk.build.splits import splits_by
from cotrunk.build.tasks import fitted_tasks, tasks_of, worded_tasks
from cotrunk.cli.terminal import tables
from cotrunk.cli.terminal.output import Document
from cotrunk.config.settings import Settings
from cotrunk.data.batches.text import template_of, tokens_of
from cotrunk.data.reading.check import check, spelled_out
from cotrunk.data.reading.splits import Text
from cotrunk.data.tokens.tokenise import Tokeniser
from cotrunk.errors import Errors
from cotrunk.kinds.task import Task
from cotrunk.model.weights.locate import local_shape
from cotrunk.model.weights.pretrained import find, load_tokenizer


def data_check(arguments: Namespace) -> Document:
    path = Path(arguments.config)
    check_settings = partial(_refuse_wrong, base=path.parent)
    settings = read_reporting_all(path, arguments.set, unset=arguments.unset, check=check_settings)
    tasks = fitted_tasks(settings, _refuse_wrong(settings, path.parent), path.parent)
    tasks = worded_tasks(settings, tasks, path.parent)
    pretrained = find(settings.encoder.weights, base=path.parent)
    pair_formats = pair_formats_of(settings, pretrained.shape, tasks)
    tokenizer = load_tokenizer(pretrained)
    template, tokenise = template_of(tokenizer), Tokeniser(tokenizer)
    document: Document = {"tasks": {}}
    errors, splits = Errors(), splits_by(settings, tasks, path.parent)
    sources = sources_of(settings, tasks, path.parent, splits)
    for task in tasks:
        mine = {split: by[task.name] for split, by in sources.items() if task.name in by}

        def lengths(rows: Sequence[tuple[Text, ...]], task: Task = task) -> list[int]:
            texts = [spelled_out(text) for row in rows for text in row]
            sizes = iter([len(ids) for ids in tokenise(texts)])
            return [
                tokens_of(template, [next(sizes) for _ in row], pair_formats[task.name])
                for row in rows
            ]

        with errors.gathered():
            own = splits.by_task.get(task.name) if splits else None
            report = check(task, mine, lengths, cut=own.left_out if own else 0)
            document["tasks"][task.name] = asdict(report)["splits"]
    errors.refuse()
    if not arguments.json:
        for task in tasks:
            tables.show_check(task, document["tasks"][task.name])
    return document


def _refuse_wrong(settings: Settings, base: Path) -> list[Task]:
    """Check what rows and their lengths depend on, before a file is read; returns the tasks.

    One wrong task is an error for all: how a file is read depends on every task that shares it.
    """
    errors = Errors()
    with errors.gathered():
        tasks = tasks_of(settings)
        errors.lines += absent_files(settings, tasks, sources_of(settings, tasks, base))
    with errors.gathered():
        if (shape := local_shape(settings.encoder.weights, base=base)) is not None:
            pair_formats_of(settings, shape, ())
    errors.refuse()
    return tasks
