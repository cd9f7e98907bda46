"""The saved networks of some runs, each read once."""

from cotrunk.build.saved_network import SavedNetwork, read_saved_network
from cotrunk.errors import UserError
from cotrunk.runs.checkpoint import CheckpointError
from cotrunk.runs.folder import RunFolder
from cotrunk.study.records import RunRecord


class Networks:
    """Reads only the JSON of a network, never its weights."""

    def __init__(self) -> None:
        self._read: dict[str, SavedNetwork | str] = {}

    def of(self, run: RunRecord) -> SavedNetwork | None:
        """None if it cannot be read."""
        found = self._found(run)
        return None if isinstance(found, str) else found

    def why_not(self, run: RunRecord) -> str:
        """Why a network cannot be read, or ""."""
        found = self._found(run)
        return found if isinstance(found, str) else ""

    def _found(self, run: RunRecord) -> SavedNetwork | str:
        key = str(run.path)
        if key not in self._read:
            try:
                self._read[key] = read_saved_network(RunFolder(run.path).best)
            except (UserError, CheckpointError) as error:
                self._read[key] = str(error).splitlines()[0]
            except KeyError as error:
                self._read[key] = f"it has no {error}.json"
        return self._read[key]
