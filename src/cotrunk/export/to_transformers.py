"""A task as a folder that transformers opens with its own classes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file
from torch import Tensor

from cotrunk.data.reading.splits import Text
from cotrunk.errors import UserError
from cotrunk.export.adapter import FOLDER as ADAPTER
from cotrunk.export.adapter import write_adapter
from cotrunk.export.steps import Step, described, encoder_tensors, head_steps, vector_steps
from cotrunk.export.tokenizer_files import write_tokenizer
from cotrunk.files import write_whole
from cotrunk.infer.model import Model
from cotrunk.model.encoder.shape import Family, Shape, config_from_shape
from cotrunk.model.sharing.network import FIRST_ONLY, Network
from cotrunk.model.weights.rename import to_hugging_face
from cotrunk.runs.checkpoint import to_json

BATCH = 32
CLASSES: dict[Family, str] = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
# The two layers that the library's own class has above the first token.
HEADS: dict[Family, tuple[str, str]] = {
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "classifier"),
}
BETWEEN: dict[Family, str] = {"bert": "tanh", "roberta": "tanh", "distilbert": "relu"}
NEEDS: dict[Family, str] = {
    "bert": 'pooling = "pooler" and a head of one layer',
    "roberta": 'pooling = "pooler" and a head of one layer',
    "distilbert": 'pooling = "cls" and a head with depth = 2, width = {} and ReLU',
}
DROPOUT: dict[Family, str] = {
    "bert": "classifier_dropout",
    "roberta": "classifier_dropout",
    "distilbert": "seq_classif_dropout",
}
PROBLEMS = {
    "softmax": "single_label_classification",
    "sigmoid": "multi_label_classification",
    "none": "regression",
}


@dataclass(frozen=True, eq=False)
class Classifier:
    """``opens_with``: the class of transformers that opens it; tensors have its names."""

    opens_with: str
    config: dict[str, object]
    tensors: dict[str, Tensor]


def as_classifier(model: Model, task: str, *, keep_lora: bool = False) -> Classifier:
    """A task as a model of transformers; a ``UserError`` says why it cannot be one."""
    network, shape = model.network, model.network.shape
    about_tokens = network.tasks[task].is_about_tokens
    name = "TokenClassification" if about_tokens else "SequenceClassification"
    library_class = f"{CLASSES[shape.family]}For{name}"
    encoder = to_hugging_face(encoder_tensors(network, task, keep_lora=keep_lora), shape)
    make = _token_head if about_tokens else _sequence_head
    tensors = {f"{shape.family}.{name}": tensor for name, tensor in encoder.items()}
    tensors |= make(model, task, library_class)
    return Classifier(
        f"AutoModelFor{name}", _config(network, task, library_class, about_tokens), tensors
    )


def write_classifier(
    classifier: Classifier, model: Model, task: str, folder: Path, *, keep_lora: bool = False
) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in classifier.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_whole(folder / "config.json", to_json(classifier.config))
    write_tokenizer(model, task, folder)
    if keep_lora:
        write_adapter(model.network, task, folder / ADAPTER)


def classifier_outputs(
    folder: Path, opens_with: str, rows: Sequence[tuple[Text, ...]], *, words: bool
) -> np.ndarray:
    """The logits that transformers itself computes from the texts of some rows."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    opened = getattr(transformers, opens_with).from_pretrained(folder, local_files_only=True)
    if (folder / ADAPTER).is_dir():
        from peft import PeftModel

        opened = PeftModel.from_pretrained(opened, folder / ADAPTER)
    opened.eval()
    found = [
        part
        for first in range(0, len(rows), BATCH)
        for part in _batch_outputs(opened, tokenizer, rows[first : first + BATCH], words=words)
    ]
    return np.concatenate(found)


def pipeline_outputs(folder: Path, row: Sequence[Text]) -> np.ndarray:
    """The logits of a row in the pipeline that the model card shows."""
    from transformers import pipeline

    answer: Any = pipeline("text-classification", model=str(folder), truncation=True, device="cpu")
    text = dict(zip(("text", "text_pair"), row, strict=False))
    found = answer(text, top_k=None, function_to_apply="none")
    by_label = {each["label"]: each["score"] for each in found}
    return np.array([by_label[label] for label in answer.model.config.id2label.values()])


def _batch_outputs(
    opened: Any, tokenizer: Any, rows: Sequence[tuple[Text, ...]], *, words: bool
) -> Iterator[np.ndarray]:
    import torch

    sides = [[list(text) if words else text for text in side] for side in zip(*rows, strict=True)]
    text = tokenizer(
        *sides, truncation=True, padding=True, is_split_into_words=words, return_tensors="pt"
    )
    with torch.inference_mode():
        logits = opened(**text).logits.numpy()
    if not words:
        yield logits
        return
    for number, (row,) in enumerate(rows):
        yield first_pieces(logits[number], text.word_ids(number), len(row))


def first_pieces(logits: np.ndarray, word_ids: Sequence[int | None], words: int) -> np.ndarray:
    """The outputs at the first piece of every word; NaN for a word that was cut off."""
    found = np.full((words, logits.shape[1]), np.nan, np.float32)
    for position, word in reversed(list(enumerate(word_ids))):
        if word is not None:
            found[word] = logits[position]
    return found


def _sequence_head(model: Model, task: str, library_class: str) -> dict[str, Tensor]:
    network, shape = model.network, model.network.shape
    refuse_unjoined(model, task)
    pooling = network.head_plans[task].pooling
    steps = [*vector_steps(network, task), *head_steps(network, task)]
    family = shape.family
    between = [(step.activation, step.width) for step in steps[:-1]]
    if pooling not in FIRST_ONLY:
        raise UserError(_supports_only(library_class, shape, f'pooling = "{pooling}"'))
    if between != [(BETWEEN[family], shape.width)] or steps[-1].activation != "none":
        found = f'pooling = "{pooling}" and, above the first token, layers of {described(steps)}'
        raise UserError(_supports_only(library_class, shape, found))
    return _named(HEADS[family], steps)


def _token_head(model: Model, task: str, library_class: str) -> dict[str, Tensor]:
    steps = [*vector_steps(model.network, task), *head_steps(model.network, task)]
    if len(steps) > 1 or steps[-1].activation != "none":
        raise UserError(
            f"{library_class} has one linear layer above the tokens; found {described(steps)}"
        )
    return _named(("classifier",), steps)


def refuse_unjoined(model: Model, task: str) -> None:
    """A pair must be one sequence, read once."""
    form, plan = model.pair_formats[task], model.network.head_plans[task]
    if form.texts == 2 and not form.joined:
        raise UserError(f'it encodes the two texts of a pair separately (pair = "{plan.pair}")')
    if form.texts == 2 and form.swapped:
        raise UserError("it reads every pair in both orders (swap = true)")


def _supports_only(library_class: str, shape: Shape, found: str) -> str:
    needed = NEEDS[shape.family].format(shape.width)
    return f"{library_class} supports only {needed}; found {found}"


def _named(names: Sequence[str], steps: Sequence[Step]) -> dict[str, Tensor]:
    return {
        f"{name}.{part}": tensor
        for name, step in zip(names, steps, strict=True)
        for part, tensor in (("weight", step.weight), ("bias", step.bias))
    }


def _config(
    network: Network, task: str, library_class: str, about_tokens: bool
) -> dict[str, object]:
    labels, shape = network.tasks[task].labels, network.shape
    names = labels.output_names
    config = config_from_shape(shape) | {
        "architectures": [library_class],
        "dtype": "float32",
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
        DROPOUT[shape.family]: network.head_plans[task].dropout,
    }
    return config if about_tokens else config | {"problem_type": PROBLEMS[labels.activation]}
