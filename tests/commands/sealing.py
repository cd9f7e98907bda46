"""A manifest that fits whatever lies in a folder, as a forger would write it."""

import hashlib
import json
from pathlib import Path


def seal(folder: Path) -> None:
    files = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for path in sorted(folder.iterdir())
        if path.name != "manifest.json"
    }
    text = json.dumps({"format": 1, "files": files}, indent=2) + "\n"
    (folder / "manifest.json").write_text(text)


def sign(run: Path, **changes: object) -> None:
    """Change the seal of a run, and give it the hash that fits."""
    content = {**json.loads((run / "seal.json").read_bytes()), **changes}
    del content["sha256"]
    text = json.dumps(content, indent=2) + "\n"
    signed = {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (run / "seal.json").write_text(json.dumps(signed, indent=2) + "\n")
