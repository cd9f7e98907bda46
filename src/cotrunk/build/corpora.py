"""Sources -> tokenised rows. Not in sources.py, because `cotrunk plan` needs no tokenizer."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from tokenizers import Tokenizer

from cotrunk.build.sources import Sources, refuse_absent
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens.cache import Corpus, load_corpus
from cotrunk.errors import Errors
from cotrunk.kinds.task import Task
from cotrunk.progress import OnProgress, ignore_progress


class LoadCorpus(Protocol):
    """Loads the rows of a task: from the token cache, or by tokenising its files."""

    def __call__(
        self, task: Task, source: Sequence[Source], tokenizer: Tokenizer, *, on_progress: OnProgress
    ) -> Corpus: ...


def corpora_of(
    sources: Sources,
    split: str,
    tasks: Sequence[Task],
    tokenizer: Tokenizer,
    *,
    load: LoadCorpus = load_corpus,
    on_progress: OnProgress = ignore_progress,
) -> dict[str, Corpus]:
    """The tokenised rows of every task with a file for the split; reports all errors at once."""
    named = [(task, sources[split][task.name]) for task in tasks if task.name in sources[split]]
    errors = Errors()
    for task, files in named:
        for source in files:
            with errors.gathered():
                refuse_absent(source.path, place=f"tasks.{task.name}.{split}")
    errors.refuse()  # before the first file is read
    return read_corpora(named, tokenizer, load=load, on_progress=on_progress)


def read_corpora(
    named: Sequence[tuple[Task, tuple[Source, ...]]],
    tokenizer: Tokenizer,
    *,
    load: LoadCorpus = load_corpus,
    on_progress: OnProgress = ignore_progress,
) -> dict[str, Corpus]:
    """The tokenised rows of the files of each task; reports all errors at once."""
    errors = Errors()
    corpora: dict[str, Corpus] = {}
    for task, files in named:
        with errors.gathered():
            corpora[task.name] = load(task, files, tokenizer, on_progress=on_progress)
    errors.refuse()
    return corpora


def not_cached(corpora: Iterable[Corpus]) -> list[str]:
    """Why corpora are held in memory instead of the cache."""
    why = dict.fromkeys(corpus.not_cached for corpus in corpora if corpus.not_cached)
    return [f"{each}; continuing without it" for each in why]
