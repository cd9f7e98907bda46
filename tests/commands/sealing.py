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
