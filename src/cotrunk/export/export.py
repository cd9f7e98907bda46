"""A run's tasks in the format of another library, checked there before they are put in place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np

from cotrunk.errors import UserError, complaints, spelled
from cotrunk.export.adapter import refuse_without_adapters
from cotrunk.export.card import Use, write_card
from cotrunk.export.check import (
    CheckRows,
    largest_difference,
    refuse_difference,
    row_to_cut,
    rows_to_check,
)
from cotrunk.export.peers import Format, quieten_transformers
from cotrunk.export.to_onnx import Session, refuse_unknown, to_int8, write_graph
from cotrunk.export.to_sentence_transformers import (
    Chain,
    as_chain,
    chain_outputs,
    our_vectors,
    texts_of,
    write_chain,
)
from cotrunk.export.to_transformers import (
    Classifier,
    as_classifier,
    classifier_outputs,
    pipeline_outputs,
    write_classifier,
)
from cotrunk.files import new_folder
from cotrunk.infer.model import Model
from cotrunk.infer.predictor import Predictor


@dataclass(frozen=True)
class Request:
    """``which``: best, final or best-TASK of the run folder ``run``."""

    run: Path
    which: str
    to: Format
    tasks: Sequence[str]
    folder: Path
    int8: bool = False
    keep_lora: bool = False


@dataclass(frozen=True)
class Exported:
    """One task; ``difference`` is the largest to the run's own outputs, on ``rows``.

    ``changed``: what int8 changed, a share of the answers or the mean distance of scores.
    """

    task: str
    folder: Path
    opens_with: str
    rows: str
    difference: float
    changed: float | None = field(default=None)


def export(model: Model, request: Request) -> list[Exported]:
    """Write the tasks of a request; reports everything that the format cannot represent at once."""
    if request.keep_lora:
        refuse_without_adapters(model.network)
    _refuse_unfit(model, request)
    with new_folder(request.folder) as beside:
        if request.to == "onnx":
            found = _export_graph(model, request, beside)
        else:
            quieten_transformers()
            found = [_export_task(model, request, task, beside) for task in request.tasks]
    return found


def _refuse_unfit(model: Model, request: Request) -> None:
    wrong: dict[str, list[str]] = {}
    for task in request.tasks:
        if not model.network.tasks[task].labels.can_answer:
            wrong.setdefault("is only for training and makes no predictions", []).append(task)
        elif reason := _reason_against(model, task, request.to):
            line = f"{reason}{_formats_that_can(model, task, request.to)}"
            wrong.setdefault(line, []).append(task)
    lines = [
        f"{'task' if len(tasks) == 1 else 'tasks'} {', '.join(tasks)}: {line}"
        for line, tasks in wrong.items()
    ]
    refused = {task for tasks in wrong.values() for task in tasks}
    if lines and (others := [task for task in request.tasks if task not in refused]):
        chosen = spelled(command=f"--task {' '.join(others)}", python=f"tasks={others!r}")
        lines.append(f"--to {request.to} can export {', '.join(others)}: give {chosen}")
    if lines:
        raise UserError(*lines)


def _reason_against(model: Model, task: str, to: Format) -> str:
    """Why a format cannot represent a task, or ""."""
    makers: dict[Format, Callable[[Model, str], object]] = {
        "transformers": as_classifier,
        "sentence-transformers": as_chain,
        "onnx": refuse_unknown,
    }
    return "".join(complaints(partial(makers[to], model, task))[:1])


def _formats_that_can(model: Model, task: str, to: Format) -> str:
    can = [
        f"--to {other}"
        for other in get_args(Format)
        if other != to and not _reason_against(model, task, other)
    ]
    vectors = model.pair_formats[task]
    if "--to sentence-transformers" in can and not (vectors.texts == 2 and vectors.joined):
        can[can.index("--to sentence-transformers")] += " (its vectors)"
    return f"; use {' or '.join(can)}" if can else ""


def _export_task(model: Model, request: Request, task: str, beside: Path) -> Exported:
    """DIR itself for one task, DIR/TASK for several."""
    several = len(request.tasks) > 1
    folder, place = (beside / task, request.folder / task) if several else (beside, request.folder)
    folder.mkdir(exist_ok=True)
    checked = rows_to_check(model, task)
    if request.to == "transformers":
        opens_with, difference, code = _classifier(
            model, task, checked, folder, keep_lora=request.keep_lora
        )
    else:
        opens_with, difference, code = _chain(model, task, checked, folder)
    refuse_difference(task, request.to, checked, difference)
    is_classifier = opens_with.startswith("AutoModelFor")
    about_tokens = model.network.tasks[task].is_about_tokens
    pipeline = "token-classification" if about_tokens else "text-classification"
    use = Use(
        library=request.to,
        pipeline=pipeline if is_classifier else PIPELINES[opens_with],
        code=code.format(place.resolve().name),
        checked=[_check_line(task, request.to, checked, difference)],
        notes=[NOT_THE_HEAD] if opens_with == "SentenceTransformer" else [],
    )
    write_card(request.run, request.which, [task], use, folder)
    return Exported(task, place, opens_with, checked.what, difference)


NOT_THE_HEAD = "It gives the vector that the head of the task reads; the head is not part of it."
PIPELINES = {"SentenceTransformer": "sentence-similarity", "CrossEncoder": "text-ranking"}


def _classifier(
    model: Model, task: str, checked: CheckRows, folder: Path, *, keep_lora: bool
) -> tuple[str, float, str]:
    classifier = as_classifier(model, task, keep_lora=keep_lora)
    write_classifier(classifier, model, task, folder, keep_lora=keep_lora)
    words = model.network.tasks[task].labels.reads_words
    theirs = classifier_outputs(folder, classifier.opens_with, checked.rows, words=words)
    difference = largest_difference(_ours(model, task, checked), theirs, _unit(model, task))
    if keep_lora:
        return classifier.opens_with, difference, _adapter_code(classifier, model, task)
    if not model.network.tasks[task].is_about_tokens:
        _refuse_pipeline_that_differs(model, task, folder)
    return classifier.opens_with, difference, _classifier_code(model, task)


def _refuse_pipeline_that_differs(model: Model, task: str, folder: Path) -> None:
    """Run the pipeline of the card on a text that is cut: it must be cut as in the run."""
    long = CheckRows([row_to_cut(model, task)], "a text that is cut")
    ours, theirs = _ours(model, task, long), pipeline_outputs(folder, long.rows[0])
    difference = largest_difference(ours, theirs[None], _unit(model, task))
    refuse_difference(task, "its pipeline", long, difference)


def _adapter_code(classifier: Classifier, model: Model, task: str) -> str:
    about = model.network.tasks[task]
    text, option = '"...", "..."' if about.texts == 2 else '"..."', ""
    if about.labels.reads_words:
        text, option = '["...", "..."]', "is_split_into_words=True, "
    probabilities = {"softmax": ".softmax(-1)", "sigmoid": ".sigmoid()", "none": ""}
    return (
        f"from transformers import AutoTokenizer, {classifier.opens_with}; "
        "from peft import PeftModel\n"
        f'model = {classifier.opens_with}.from_pretrained("{{0}}")\n'
        'model = PeftModel.from_pretrained(model, "{0}/adapter")\n'
        'tokenizer = AutoTokenizer.from_pretrained("{0}")\n'
        f'text = tokenizer({text}, {option}truncation=True, return_tensors="pt")\n'
        f"print(model(**text).logits{probabilities[about.labels.activation]}.tolist())"
    )


def _classifier_code(model: Model, task: str) -> str:
    about = model.network.tasks[task]
    # The pipeline for tokens always truncates, and does not take the option.
    kind, option = "token-classification", ""
    if not about.is_about_tokens:
        kind, option = "text-classification", ", truncation=True"
    text = '{{"text": "...", "text_pair": "..."}}' if about.texts == 2 else '"..."'
    return (
        "from transformers import pipeline\n"
        f'answer = pipeline("{kind}", model="{{0}}"{option})\n'
        f"print(answer({text}))"
    )


def _chain(model: Model, task: str, checked: CheckRows, folder: Path) -> tuple[str, float, str]:
    chain: Chain = as_chain(model, task)
    write_chain(chain, model, task, folder)
    theirs = chain_outputs(folder, chain, checked.rows)
    if chain.scores_pairs:
        difference = largest_difference(_ours(model, task, checked), theirs, _unit(model, task))
    else:
        ours = our_vectors(model, task, texts_of(checked.rows))
        difference = largest_difference(ours, theirs)
    call = 'predict([("...", "...")])' if chain.scores_pairs else 'encode(["..."])'
    code = (
        f"from sentence_transformers import {chain.opens_with}\n"
        f'model = {chain.opens_with}("{{0}}")\n'
        f"print(model.{call})"
    )
    return chain.opens_with, difference, code


def _ours(model: Model, task: str, checked: CheckRows) -> np.ndarray:
    return Predictor(model).output_rows([task], checked.rows)[0][task]


def _unit(model: Model, task: str) -> float:
    return model.network.tasks[task].labels.output_unit[1]


def _export_graph(model: Model, request: Request, beside: Path) -> list[Exported]:
    write_graph(model, request.tasks, beside)
    session, found = Session(beside), []
    rows = {task: rows_to_check(model, task) for task in request.tasks}
    ours = {task: _ours(model, task, rows[task]) for task in request.tasks}
    for task in request.tasks:
        theirs = session.outputs(model, task, rows[task].rows)
        difference = largest_difference(ours[task], theirs, _unit(model, task))
        refuse_difference(task, "onnxruntime", rows[task], difference)
        found.append(Exported(task, request.folder, "onnxruntime", rows[task].what, difference))
    checked = [_check_line(e.task, "onnxruntime", rows[e.task], e.difference) for e in found]
    if request.int8:
        to_int8(beside)
        found = _with_int8(model, found, ours, rows, Session(beside))
        checked += [_int8_line(model, one) for one in found]
    use = Use(
        library="onnx",
        pipeline="text-classification",
        code="from example import outputs  # example.py, in this folder\n"
        f'print(outputs("{request.tasks[0]}", [{_row(model, request.tasks[0])}]))',
        checked=checked,
        notes=["Inputs are padded on the right."],
    )
    write_card(request.run, request.which, request.tasks, use, beside)
    return found


def _row(model: Model, task: str) -> str:
    """A row of a task as Python code."""
    about = model.network.tasks[task]
    if about.labels.reads_words:
        return '["...", "..."]'
    return '("...", "...")' if about.texts == 2 else '"..."'


def _with_int8(
    model: Model,
    found: Sequence[Exported],
    ours: dict[str, np.ndarray],
    rows: dict[str, CheckRows],
    session: Session,
) -> list[Exported]:
    changed = []
    for one in found:
        rough = session.outputs(model, one.task, rows[one.task].rows)
        labels = model.network.tasks[one.task].labels
        share = labels.changed(ours[one.task], rough)
        changed.append(
            Exported(one.task, one.folder, one.opens_with, one.rows, one.difference, share)
        )
    return changed


def _check_line(task: str, library: str, checked: CheckRows, difference: float) -> str:
    return (
        f"{task}: {library} computes the run's outputs on {checked.what} "
        f"(largest difference {difference:.1e})."
    )


def _int8_line(model: Model, one: Exported) -> str:
    is_share = model.network.tasks[one.task].labels.change_is == "share"
    changed = f"{one.changed:.1%} of the answers" if is_share else f"scores by {one.changed:.3f}"
    return f"{one.task}: 8-bit weights change {changed} on {one.rows}."
