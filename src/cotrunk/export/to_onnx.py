"""All tasks of a run as one ONNX graph, with a tokenizer and an example beside it."""

import logging
import shutil
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from cotrunk.data.reading.splits import Text
from cotrunk.errors import UserError
from cotrunk.export.encoder_graph import IDS, MASK, SEGMENTS, EncoderGraph, has_operation
from cotrunk.export.graph import Graph
from cotrunk.export.head_graph import HeadGraph
from cotrunk.export.to_transformers import BATCH, first_pieces
from cotrunk.export.tokenizer_files import write_padding_tokenizer
from cotrunk.files import write_whole
from cotrunk.infer.model import Model
from cotrunk.runs.checkpoint import to_json

MODEL = "model.onnx"
MOST_BYTES = 3 * 2**29
"""Larger weights are stored beside the graph: a file of the format holds at most 2 GB."""


def refuse_unknown(model: Model, task: str) -> None:
    """The graph can hold everything but modules of extensions; names must differ."""
    network = model.network
    if task in (IDS, MASK, SEGMENTS):
        raise UserError("an input of the graph has this name; rename the task")
    new = list(network.plan.acting("tokens"))
    new += [p for p in network.on_vectors if not has_operation(network.owned[p.name].copy_of(task))]
    if new:
        raise UserError(f"{new[0].name} comes from an extension, which cannot be exported")


def graph_of(model: Model, tasks: Sequence[str]) -> Any:
    """A ``ModelProto`` with one output per task; what several tasks share is in the graph once."""
    network, graph = model.network, Graph()
    encoder = EncoderGraph(graph, network)
    pooled = encoder.pooled(network.needed_by(tasks))
    for task, value in HeadGraph(graph, model).answers(pooled, tasks).items():
        graph.name(value, task)
    return graph.model(encoder.inputs, {task: _shape(model, task) for task in tasks})


def _shape(model: Model, task: str) -> list[int | str]:
    about, form = model.network.tasks[task], model.pair_formats[task]
    if about.is_about_tokens:
        return ["B", "L", about.outputs]
    one_sequence_per_row = form.texts == 1 or (form.joined and not form.swapped)
    return ["B" if one_sequence_per_row else "pairs", about.outputs]


def write_graph(
    model: Model, tasks: Sequence[str], folder: Path, *, most_bytes: int = MOST_BYTES
) -> None:
    """The graph, its tokenizer, what each output means, and an example that answers a text."""
    import onnx

    made = graph_of(model, tasks)
    large = sum(len(constant.raw_data) for constant in made.graph.initializer) > most_bytes
    beside = f"{MODEL}.data" if large else None
    onnx.save_model(made, folder / MODEL, save_as_external_data=large, location=beside)
    onnx.checker.check_model(str(folder / MODEL), full_check=True)
    write_padding_tokenizer(model, model.pair_formats[tasks[0]].max_tokens, folder)
    about = {task: _about(model, task) for task in tasks}
    write_whole(folder / "tasks.json", to_json(about))
    example = resources.files("cotrunk.export") / "example.txt"
    write_whole(folder / "example.py", example.read_bytes())


def _about(model: Model, task: str) -> dict[str, object]:
    """How to feed a task, and what its outputs are."""
    form, labels = model.pair_formats[task], model.network.tasks[task].labels
    return {
        "texts": form.texts,
        "joined": form.joined,
        "swapped": form.swapped,
        "segments": form.segments,
        "words": labels.reads_words,
        "activation": labels.activation,
        "outputs": list(labels.output_names),
        "labels": list(labels.words),
        "thresholds": labels.thresholds(),
    }


def to_int8(folder: Path) -> None:
    """Replace the graph by one whose matrix products have 8-bit weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    exact = folder / "float32"  # a folder of its own, because large weights have a fixed name
    exact.mkdir()
    for file in list(folder.glob(f"{MODEL}*")):
        file.rename(exact / file.name)
    logging.disable(logging.WARNING)  # its advice does not apply here
    try:
        quantize_dynamic(
            exact / MODEL,
            folder / MODEL,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            reduce_range=True,  # two products must fit 16 bits on AVX2
            weight_type=QuantType.QInt8,
            use_external_data_format=(exact / f"{MODEL}.data").exists(),
        )
    finally:
        logging.disable(logging.NOTSET)
    shutil.rmtree(exact)


class Session:
    """The exported graph in onnxruntime, fed through the exported tokenizer."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(folder / MODEL), options)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.inputs = [given.name for given in self.session.get_inputs()]

    def outputs(self, model: Model, task: str, rows: Sequence[tuple[Text, ...]]) -> np.ndarray:
        found = [
            part
            for first in range(0, len(rows), BATCH)
            for part in self._batch(model, task, rows[first : first + BATCH])
        ]
        return np.concatenate(found)

    def _batch(
        self, model: Model, task: str, rows: Sequence[tuple[Text, ...]]
    ) -> Iterator[np.ndarray]:
        form, words = model.pair_formats[task], model.network.tasks[task].labels.reads_words
        encoded = self.tokenizer.encode_batch(_sequences(model, task, rows), is_pretokenized=words)
        feed = {
            "input_ids": np.array([one.ids for one in encoded]),
            "attention_mask": np.array([one.attention_mask for one in encoded]),
            "token_type_ids": np.array([one.type_ids for one in encoded]) * form.segments,
        }
        (outputs,) = self.session.run([task], {name: feed[name] for name in self.inputs})
        if not words:
            yield outputs
            return
        for number, (row,) in enumerate(rows):
            yield first_pieces(outputs[number], encoded[number].word_ids, len(row))


def _sequences(model: Model, task: str, rows: Sequence[tuple[Text, ...]]) -> list[Any]:
    form = model.pair_formats[task]
    if form.texts == 1:
        return [row[0] for row in rows]
    if not form.joined:
        return [row[0] for row in rows] + [row[1] for row in rows]
    swapped = [(row[1], row[0]) for row in rows] if form.swapped else []
    return [(row[0], row[1]) for row in rows] + swapped
