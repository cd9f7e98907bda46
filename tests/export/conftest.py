"""A run to export, for reading only."""

from pathlib import Path

import pytest
from shipping import train, write_world


@pytest.fixture(scope="session")
def pooled_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one step, with a pooler; its config lies beside it."""
    with pytest.MonkeyPatch.context() as environment:
        folder = tmp_path_factory.mktemp("exporting")
        environment.setenv("COTRUNK_CACHE", str(folder / "cache"))
        return train(write_world(folder), 'encoder.pooling="pooler"')
