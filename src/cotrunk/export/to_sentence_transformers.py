"""A task as a folder of sentence-transformers: a chain of modules, written as its own files.

Single texts, and pairs encoded separately, become a SentenceTransformer, which gives the
vector that the head reads. Joined pairs become a CrossEncoder, which gives the task's outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from cotrunk.data.batches.packing import pack
from cotrunk.data.batches.text import PairFormat, Template, join
from cotrunk.data.reading.splits import Text
from cotrunk.errors import UserError
from cotrunk.export.steps import (
    Step,
    encoder_tensors,
    head_steps,
    projection_steps,
    vector_steps,
)
from cotrunk.export.to_transformers import BATCH, refuse_unjoined
from cotrunk.export.tokenizer_files import write_tokenizer
from cotrunk.files import write_whole
from cotrunk.infer.model import Model
from cotrunk.model.encoder.dropout import NO_DROPOUT
from cotrunk.model.encoder.shape import config_from_shape
from cotrunk.model.head_plan import Pooling
from cotrunk.model.weights.rename import to_hugging_face
from cotrunk.runs.checkpoint import to_json

POOLINGS: dict[Pooling, str] = {"mean": "mean", "max": "max", "cls": "cls", "pooler": "cls"}
ACTIVATIONS = {
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu": "torch.nn.modules.activation.GELU",
    "tanh": "torch.nn.modules.activation.Tanh",
    "none": "torch.nn.modules.linear.Identity",
}
DECISIONS = {
    "softmax": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "none": "torch.nn.modules.linear.Identity",
}
TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
POOLING = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
DENSE = "sentence_transformers.base.modules.dense.Dense"
EMBEDDING, SCORES = "sentence_embedding", "scores"


@dataclass(frozen=True, eq=False)
class Chain:
    """``opens_with``: SentenceTransformer or CrossEncoder, whose last step gives the outputs."""

    opens_with: str
    pooling: str
    steps: Sequence[Step]
    encoder: dict[str, Tensor]

    @property
    def scores_pairs(self) -> bool:
        return self.opens_with == "CrossEncoder"


def as_chain(model: Model, task: str) -> Chain:
    """A task as modules of sentence-transformers; a ``UserError`` says why it cannot be."""
    network, form = model.network, model.pair_formats[task]
    plan = network.head_plans[task]
    if network.tasks[task].is_about_tokens:
        raise UserError("it labels words, and sentence-transformers has one vector per text")
    if plan.pooling not in POOLINGS:
        raise UserError(f'sentence-transformers does not have pooling = "{plan.pooling}"')
    steps = vector_steps(network, task)
    scores_pairs = form.texts == 2 and form.joined
    if scores_pairs:
        refuse_unjoined(model, task)
        steps += head_steps(network, task)
    elif plan.pair == "cosine":
        steps += projection_steps(network, task)
    return Chain(
        "CrossEncoder" if scores_pairs else "SentenceTransformer",
        POOLINGS[plan.pooling],
        steps,
        to_hugging_face(encoder_tensors(network, task), network.shape),
    )


def write_chain(chain: Chain, model: Model, task: str, folder: Path) -> None:
    shape = model.network.shape
    modules = [("", TRANSFORMER), ("1_Pooling", POOLING)]
    modules += [(f"{number}_Dense", DENSE) for number in range(2, 2 + len(chain.steps))]
    entries = [
        {"idx": number, "name": str(number), "path": path, "type": kind}
        for number, (path, kind) in enumerate(modules)
    ]
    tensors = {name: tensor.contiguous() for name, tensor in chain.encoder.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write(folder / "config.json", config_from_shape(shape) | {"dtype": "float32"})
    _write(folder / "modules.json", entries)
    _write(folder / "config_sentence_transformers.json", _settings(chain, model, task))
    # Unused, the library's own pooler would start with random weights, and warn about it.
    unused = {"model_args": {"add_pooling_layer": False}} if shape.pooler else {}
    _write(folder / "sentence_bert_config.json", TOKEN_EMBEDDINGS | unused)
    pooling = {"embedding_dimension": shape.width, "pooling_mode": chain.pooling}
    _write(folder / "1_Pooling" / "config.json", pooling)
    for number, step in enumerate(chain.steps, 2):
        is_last = chain.scores_pairs and number == 1 + len(chain.steps)
        _write_dense(step, folder / f"{number}_Dense", SCORES if is_last else EMBEDDING)
    write_tokenizer(model, task, folder)


TOKEN_EMBEDDINGS = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}


def _settings(chain: Chain, model: Model, task: str) -> dict[str, object]:
    shared: dict[str, object] = {"model_type": chain.opens_with}
    if chain.scores_pairs:
        labels = model.network.tasks[task].labels
        return shared | {"activation_fn": DECISIONS[labels.activation]}
    return shared | {"similarity_fn_name": "cosine"}


def _write_dense(step: Step, folder: Path, output: str) -> None:
    config = {
        "in_features": step.weight.shape[1],
        "out_features": step.width,
        "bias": True,
        "activation_function": ACTIVATIONS[step.activation],
        "module_input_name": EMBEDDING,
        "module_output_name": output,
    }
    _write(folder / "config.json", config)
    tensors = {"linear.weight": step.weight.contiguous(), "linear.bias": step.bias.contiguous()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _write(file: Path, document: object) -> None:
    file.parent.mkdir(exist_ok=True)
    write_whole(file, to_json(document))


def chain_outputs(folder: Path, chain: Chain, rows: Sequence[tuple[Text, ...]]) -> np.ndarray:
    """What sentence-transformers computes: outputs of pairs, or the vectors of all texts."""
    import sentence_transformers

    opened: Any = getattr(sentence_transformers, chain.opens_with)(
        str(folder), device="cpu", local_files_only=True
    )
    if not chain.scores_pairs:
        return opened.encode(texts_of(rows), batch_size=BATCH)
    scores: np.ndarray = opened.predict(
        rows, batch_size=BATCH, activation_fn=torch.nn.Identity(), show_progress_bar=False
    )
    return scores.reshape(len(rows), -1)


def texts_of(rows: Sequence[tuple[Text, ...]]) -> list[Text]:
    """All first texts, then all second ones."""
    return [text for side in zip(*rows, strict=True) for text in side]


@torch.inference_mode()
def our_vectors(model: Model, task: str, texts: Sequence[Text]) -> np.ndarray:
    """The vectors that the head of a task reads, computed by its own network."""
    network, form = model.network, model.pair_formats[task]
    one = PairFormat(1, segments=form.segments, max_tokens=form.max_tokens)
    found = []
    for first in range(0, len(texts), BATCH):
        ids = [_ids(model, text) for text in texts[first : first + BATCH]]
        packed, place_S = _packed(model.template, ids, one)
        pooled = network.encode(packed, [task], NO_DROPOUT)
        for place in network.on_vectors:
            pooled = network.owned[place.name].route(pooled, lambda copy, x_SD, _: copy(x_SD))
        (x_SD,) = (x for tasks, x in pooled.items() if task in tasks)
        if network.head_plans[task].pair == "cosine":
            for step in projection_steps(network, task):
                x_SD = torch.nn.functional.linear(x_SD, step.weight, step.bias)
        found.append(x_SD[place_S].numpy())
    return np.concatenate(found)


def _ids(model: Model, text: Text) -> np.ndarray:
    return np.array(model.tokenizer.encode(text, add_special_tokens=False).ids, np.int64)


def _packed(template: Template, ids: Sequence[np.ndarray], form: PairFormat) -> tuple[Any, Tensor]:
    sequences = [join(template, (one,), form) for one in ids]
    packed = pack([tokens for tokens, _ in sequences], [segments for _, segments in sequences])
    return packed, packed.place_S
