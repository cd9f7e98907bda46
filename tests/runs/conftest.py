"""A checkpoint on disk."""

import pytest
from sealed import DOCUMENTS, tensors

from cotrunk.runs.checkpoint import write_checkpoint


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path / "best", tensors=tensors(), documents=DOCUMENTS)
    return tmp_path / "best"
