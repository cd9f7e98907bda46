"""A published model on disk."""

import pytest


@pytest.fixture
def folder(tmp_path):
    """A tiny BERT as a user would have it on disk."""
    from published import add_vocabulary, reference  # transformers is slow to import

    reference("tiny").save_pretrained(tmp_path)
    add_vocabulary(tmp_path)
    return tmp_path
