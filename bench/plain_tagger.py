"""A tagger fine-tuned the usual way: ``transformers``, padded batches, ``seqeval``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cotrunk.model.weights.locate import local_folder

Sentence = tuple[list[str], list[str]]
IGNORED = -100


@dataclass(frozen=True)
class Recipe:
    """What both sides do alike: AdamW, a linear schedule, clipping at norm 1, no early choice."""

    steps: int
    batch: int = 16
    lr: float = 3e-4
    warmup: float = 0.1
    decay: float = 0.01
    max_tokens: int = 128


def read_conll(file: Path) -> list[Sentence]:
    """Sentences of words and tags; first and last column, a blank line between sentences."""
    found: list[Sentence] = [([], [])]
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            found.append(([], []))
            continue
        word, *_, tag = line.split("\t")
        found[-1][0].append(word)
        found[-1][1].append(tag)
    return [sentence for sentence in found if sentence[0]]


def entity_f1(
    train: Sequence[Sentence], dev: Sequence[Sentence], recipe: Recipe, *, seed: int
) -> float:
    """Trains from MiniLM and returns the entity F1 on ``dev`` after the last step."""
    from seqeval.metrics import f1_score
    from transformers import AutoModelForTokenClassification, AutoTokenizer

    torch.manual_seed(seed)
    folder, classes = (
        str(local_folder("minilm", base=Path())),
        sorted({t for _, s in train for t in s}),
    )
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=len(classes))
    optimizer, schedule = optimizer_of(model, recipe)
    model.train()
    order: list[int] = []
    for _ in range(recipe.steps):
        if len(order) < recipe.batch:
            order += torch.randperm(len(train)).tolist()
        rows, order = order[: recipe.batch], order[recipe.batch :]
        inputs, labels, _ = encode(tokenizer, [train[row] for row in rows], classes, recipe)
        model(**inputs, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    predicted = []
    with torch.no_grad():
        for start in range(0, len(dev), recipe.batch):
            some = dev[start : start + recipe.batch]
            inputs, _, firsts = encode(tokenizer, some, classes, recipe)
            best = model(**inputs).logits.argmax(-1).tolist()
            predicted += [
                [classes[row[at]] if at is not None else "O" for at in first]
                for row, first in zip(best, firsts, strict=True)
            ]
    return float(f1_score([tags for _, tags in dev], predicted))


def optimizer_of(model: Any, recipe: Recipe) -> tuple[Any, Any]:
    from transformers import get_linear_schedule_with_warmup

    vectors = [p for p in model.parameters() if p.ndim < 2]
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    groups = [
        {"params": matrices, "weight_decay": recipe.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.lr)
    warmup = round(recipe.warmup * recipe.steps)
    return optimizer, get_linear_schedule_with_warmup(optimizer, warmup, recipe.steps)


def encode(
    tokenizer: Any, sentences: Sequence[Sentence], classes: Sequence[str], recipe: Recipe
) -> tuple[Any, torch.Tensor, list[list[int | None]]]:
    """Padded inputs, the label of each word on its first piece, and where these pieces are."""
    inputs = tokenizer(
        [words for words, _ in sentences],
        is_split_into_words=True,
        truncation=True,
        max_length=recipe.max_tokens,
        padding=True,
        return_tensors="pt",
    )
    labels, firsts = torch.full_like(inputs["input_ids"], IGNORED), []
    for row, (words, tags) in enumerate(sentences):
        pieces = inputs.word_ids(row)
        first = [pieces.index(word) if word in pieces else None for word in range(len(words))]
        for at, tag in zip(first, tags, strict=True):
            if at is not None and tag in classes:
                labels[row, at] = classes.index(tag)
        firsts.append(first)
    return inputs, labels, firsts
