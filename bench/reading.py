"""Reading and tokenising files."""

from collections.abc import Iterator
from pathlib import Path

from bench.timing import Result, compare
from bench.work import Bench, empty_cache, settings_of
from cotrunk.build.corpora import corpora_of
from cotrunk.build.sources import existing_sources, sources_of
from cotrunk.build.tasks import tasks_of
from cotrunk.data.reading.examples import Rows
from cotrunk.model.weights.pretrained import find, load_tokenizer


def tokenising(bench: Bench) -> Iterator[Result]:
    """Three files checked, tokenised and cached, compared with only tokenising their texts."""
    settings, base = settings_of(bench), Path.cwd()
    tasks, tokenizer = tasks_of(settings), load_tokenizer(find("minilm", base=base))
    rows = 0

    def ours() -> None:
        nonlocal rows
        with empty_cache():
            read = corpora_of(sources_of(settings, tasks, base), "train", tasks, tokenizer)
            rows = sum(len(corpus) for corpus in read.values())

    texts = [
        text
        for task in tasks
        for source in existing_sources(settings, task, "train", base)
        for row in Rows(task, source)
        for text in row.texts
    ]
    result = compare(
        "read-and-tokenise",
        ours,
        lambda: tokenizer.encode_batch_fast(texts, add_special_tokens=False),
        rounds=bench.rounds(6),
    )
    yield result
    speed = rows / result.ours
    yield Result(
        "rows-per-cpu-second", speed, rows / result.peer, result.ratio, result.low, result.high,
        "times less", "rows per CPU s", result.rounds, None, result.busy,
    )  # fmt: skip


FAMILY = {"read-and-tokenise": tokenising}
