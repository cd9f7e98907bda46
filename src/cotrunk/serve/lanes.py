"""Which tasks can answer the same rows in one pass."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from cotrunk.data.batches.text import PairFormat
from cotrunk.infer.embedding import copies_of, format_to_embed
from cotrunk.infer.model import Model
from cotrunk.model.sharing.network import FIRST_ONLY


@dataclass(frozen=True)
class Lane:
    """Rows of one lane go through the encoder together; what their tasks share is computed once.

    ``same_encoder``: its tasks own the same copies of all layers, so that answering all of them
    costs a few heads more than answering one.
    """

    pair_format: PairFormat
    words: bool
    tasks: tuple[str, ...]
    same_encoder: bool = True
    vectors: bool = False
    """It gives the vectors of its only task, not answers."""

    def batch_key(self, asked: Sequence[str]) -> Hashable:
        """Rows with the same key are one batch.

        With one encoder, it does not matter which tasks a row asks for; otherwise every further
        task means more layers, so that rows for other tasks are a separate batch.
        """
        return self if self.same_encoder else (self, frozenset(asked))


def lanes_of(model: Model) -> dict[str, Lane]:
    """The lane of each task that answers."""
    network, alike = model.network, dict[object, list[str]]()
    for name, task in network.tasks.items():
        if task.labels.can_answer:
            first_only = network.head_plans[name].pooling in FIRST_ONLY
            words = task.labels.reads_words
            lowest = next(iter(copies_of(network, name)))  # tasks that share nothing stay apart
            key = (model.pair_formats[name], words, task.is_about_tokens, first_only, lowest)
            alike.setdefault(key, []).append(name)
    made = {name: _lane(model, names) for names in alike.values() for name in names}
    return {name: made[name] for name in network.tasks if name in made}


def _lane(model: Model, tasks: Sequence[str]) -> Lane:
    labels, copies = model.network.tasks[tasks[0]].labels, set[object]()
    for task in tasks:
        copies.add(tuple(copies_of(model.network, task)))
    pair_format = model.pair_formats[tasks[0]]
    return Lane(pair_format, labels.reads_words, tuple(tasks), same_encoder=len(copies) == 1)


def vector_lane(model: Model, task: str) -> Lane:
    return Lane(format_to_embed(model, task), words=False, tasks=(task,), vectors=True)
