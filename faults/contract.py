"""S5: requests made from the service's own OpenAPI document, valid and not, by schemathesis."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from faults.figure import Figure, Size
from faults.preload import shared
from faults.serving import served
from faults.world import world

CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 408, 411, 413, 415, 422, 429, 431]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", 413, 429]
"""
"""413: no schema can say how many bytes a document may have."""


def s5(seed: int, size: Size) -> Figure:
    """All checks of schemathesis on every operation."""
    examples = 500 if size == "long" else 5
    if find_spec("schemathesis") is None:
        return Figure("S5", "requests from the OpenAPI document", 0, 0, "needs schemathesis")
    with world(shared()) as here, served(here.commands, here.finished(), env=here.env) as service:
        config = Path(here.folder) / "schemathesis.toml"
        config.write_text(CONFIG)
        done = subprocess.run(
            [
                *(sys.executable, "-c", "from schemathesis.cli import schemathesis as st; st()"),
                *("--config-file", str(config), "run", f"{service.url}/openapi.json"),
                *("--checks", "all", "--max-examples", str(examples), "--seed", str(seed)),
                *("--no-color", "--continue-on-failure", "--generation-database", "none"),
                *(("--phases", "fuzzing") if size == "quick" else ()),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=here.folder,
        )
        said, _ = service.stop()
    lines = [line[:200].strip() for line in done.stdout.splitlines()]
    failures = [line for line in lines if line.startswith(("- ST", "❌ ST"))]
    cases = next((line for line in lines if " generated" in line), "no cases")
    checks = [done.returncode == 0, " generated" in cases, said.code == 0 and said.is_clean]
    note = f"{examples} examples for each of the operations, {cases}"
    claim = "requests from the OpenAPI document: no server error, no answer outside of it"
    return Figure(
        "S5", claim, len(checks), sum(checks), note + "".join(f"; {each}" for each in failures[:4])
    )
