"""Writes results/bench.json as a table into docs/speed.md: ``python -m bench.table``."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROWS = [
    ("train-minilm-cls", "a step, MiniLM", "transformers, three padded passes"),
    ("train-minilm-mean", "the same, mean of tokens", "transformers"),
    ("train-minilm-course", "a step, MiniLM", "the course's encoder, rewritten"),
    ("train-bert-base", "a step, BERT-base shape", "transformers"),
    ("train-hybrid", "a step, half of the layers shared", "three transformers models, also shared"),
    ("train-individual", "a step, nothing shared", "three transformers models"),
    ("train-pals-against-plain", "a step with PALs", "transformers without them"),
    ("pcgrad-against-torchjd", "a step with PCGrad", "torchjd on our encoder"),
    ("pcgrad-against-libmtl", "", "LibMTL's way on transformers"),
    ("pcgrad-against-loss-by-loss", "", "the same, each loss through its own graph alone"),
    ("pcgrad-against-retained-packed", "", "flattened on our encoder, one graph retained"),
    ("infer-file-order", "answers, three tasks' rows", "transformers, file order"),
    ("infer-sorted", "", "transformers, sorted"),
    ("infer-file-order-mean", "the same, mean of tokens", "transformers, file order"),
    ("infer-sorted-mean", "", "transformers, sorted"),
    ("infer-onnx", "answers, sentences", "ONNX Runtime, fused, sorted"),
    ("infer-onnx-int8", "", "ONNX Runtime in int8, sorted"),
    ("infer-sentence-transformers", "answers, from text, mean of tokens", "sentence-transformers"),
    ("infer-int8", "answers in int8", "transformers fp32, sorted"),
    ("infer-int8-against-onnx-int8", "", "ONNX Runtime in int8, sorted"),
    ("three-tasks-S6-three-models", "three tasks on a text, `S6`", "three transformers models"),
    ("three-tasks-S3-I3-three-models", "the same, `S3 I3`", "three transformers models"),
    ("serve-one-at-a-time", "a service, three tasks on a text", "FastAPI, three models, in turn"),
    ("serve-dynamic-batching", "", "the same with dynamic batching"),
    ("serve-litserve", "a service, one task", "LitServe with batching"),
    ("frozen-study", "8 runs of 10 epochs, frozen encoder", "transformers, encoding every epoch"),
    ("read-and-tokenise", "three files read, checked, stored", "tokenizers, their texts alone"),
]
ENOUGH_ROUNDS = 6
"""The fewest rounds for an interval narrower than the range."""
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    found = {result["name"]: result for result in results}
    yield "| ours | other | less CPU | 95 % interval | less time |"
    yield "|---|---|---|---|---|"
    for name, ours, other in ROWS:
        if name in found:
            one = found[name]
            cpu, low, high = (_shown(one[key]) for key in ("ratio", "low", "high"))
            wall = _shown(one["wall_ratio"])
            all_rounds = one["busy"] or one["rounds"] < ENOUGH_ROUNDS
            spread = f"{low} to {high}{' (all rounds)' if all_rounds else ''}"
            yield f"| {ours} | {other} | {cpu} | {spread} | {wall} |"


def _shown(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"{ratio:.0f}" if ratio > 20 else f"{ratio:.2f}"


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    results = json.loads((root / "results/bench.json").read_text())
    page = root / "docs/speed.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + "\n".join(table(results)) + "\n" + END + after)
