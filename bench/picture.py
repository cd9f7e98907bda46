"""Draws results/bench.json as docs/bench.svg: ``python -m bench.picture``."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

SHOWN = {
    "A training step, CPU time of the other / ours": {
        "train-minilm-cls": "transformers, MiniLM, first token",
        "train-minilm-mean": "transformers, MiniLM, mean of tokens",
        "train-minilm-course": "the course's encoder, rewritten",
        "train-bert-base": "transformers, BERT-base shape",
        "train-hybrid": "three transformers models, half shared",
        "train-individual": "three transformers models",
    },
    "A step with PCGrad": {
        "pcgrad-against-torchjd": "torchjd on our encoder",
        "pcgrad-against-libmtl": "LibMTL's way on transformers",
        "pcgrad-against-loss-by-loss": "the same, each loss by its own graph",
        "pcgrad-against-retained-packed": "flattened on our encoder, one graph",
    },
    "Answers to texts": {
        "infer-file-order": "transformers, in file order",
        "infer-sorted": "transformers, sorted by length",
        "infer-onnx": "ONNX Runtime, sorted",
        "infer-onnx-int8": "ONNX Runtime in int8, ours in float32",
        "infer-sentence-transformers": "sentence-transformers",
        "infer-int8": "ours in int8, transformers sorted",
        "three-tasks-S6-three-models": "three tasks: three transformers models",
    },
}
LEFT, WIDTH, ROW, MOST = 330, 460, 26, 8.0
INK, FAINT = "#1f2933", "#e4e7eb"


def draw(results: Sequence[dict[str, Any]]) -> str:
    found = {result["name"]: result for result in results}
    lines, y = [], 20
    for title, names in SHOWN.items():
        here = {name: label for name, label in names.items() if name in found}
        if not here:
            continue
        y += 12
        lines.append(f'<text x="16" y="{y}" font-weight="600" fill="#1f2933">{title}</text>')
        for name, label in here.items():
            y += ROW
            lines += _row(found[name], label, y)
        y += 16
    rule = [
        f'<line x1="{_x(n)}" x2="{_x(n)}" y1="12" y2="{y}" stroke="{INK if n == 1 else FAINT}"/>'
        f'<text x="{_x(n)}" y="{y + 16}" text-anchor="middle" fill="#7b8794">{n:g}x</text>'
        for n in range(1, math.floor(MOST) + 1)
    ]
    size = f"0 0 {LEFT + WIDTH + 80} {y + 28}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-size="13" '
        'font-family="system-ui, sans-serif" role="img" '
        'aria-label="How many times less CPU time than others">'
    )
    ground = f'<rect width="100%" height="{y + 28}" fill="#ffffff"/>'
    return "\n".join([head, ground, *rule, *lines, "</svg>"]) + "\n"


def _row(result: dict[str, Any], label: str, y: int) -> Iterator[str]:
    ratio, low, high = result["ratio"], result["low"], result["high"]
    middle = y - 4
    yield f'<text x="{LEFT - 10}" y="{y}" text-anchor="end" fill="#52606d">{escape(label)}</text>'
    yield f'<rect x="{LEFT}" y="{y - 14}" width="{_x(ratio) - LEFT}" height="19" fill="#2f6690"/>'
    yield f'<path d="M{_x(low)} {middle}H{_x(high)}" stroke="#f4a259" stroke-width="3"/>'
    yield f'<text x="{_x(max(ratio, high)) + 8}" y="{y}" fill="#1f2933">{ratio:.2f}</text>'


def _x(ratio: float) -> float:
    return round(LEFT + WIDTH * min(ratio, MOST) / MOST, 1)


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    results = json.loads((root / "results/bench.json").read_text())
    (root / "docs/bench.svg").write_text(draw(results))
