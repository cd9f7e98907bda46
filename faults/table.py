"""Writes results/faults.json as a table into docs/reliability.md: ``python -m faults.table``."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PEERS = {
    "R1": "transformers: 10 of 16 broke; Lightning: 8 of 9 differ",
    "R2": "bugs of this class in accelerate's StatefulDataLoader (KempnerForge #57)",
    "R7": "transformers, Lightning and Ray fail",
    "R8": "transformers, Lightning, DCP, torch.load and safetensors notice none",
    "R9": "transformers goes on without RNG or optimizer state",
    "R10": "transformers fails",
    "R12": "transformers saves nothing; its just-in-time checkpoint returns 0",
    "R13": "transformers logs 0.0; Lightning runs on",
    "R14": "transformers and Lightning fail",
    "R17": "all go on silently",
}
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| | promise | held | measured | others |"
    yield "|---|---|---|---|---|"
    for one in results:
        held = f"{one['held']:,} of {one['tried']:,}"
        peers = PEERS.get(one["name"], "")
        yield f"| {one['name']} | {one['claim']} | {held} | {one['note']} | {peers} |"


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    results = json.loads((root / "results/faults.json").read_text())
    page = root / "docs/reliability.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(before + BEGIN + "\n".join(table(results)) + "\n" + END + after)
