"""What `cotrunk verify` says of a run that has hardly begun."""

from cotrunk.runs.folder import RunFolder
from cotrunk.runs.verify import verify


def test_a_run_that_was_killed_while_it_was_created_is_not_called_damaged(tmp_path):
    run = RunFolder.create(tmp_path / "new")
    assert not verify(run.path).damaged
    run.write_document("run", {})
    assert not verify(run.path).damaged
