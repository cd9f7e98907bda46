"""TensorBoard's event files."""

import hashlib
import os

from cotrunk.runs.events import Event, Finished
from cotrunk.track.tracker import Tracked, numbers_of


class TensorBoard:
    def __init__(self, tracked: Tracked) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        # What a killed run wrote after its last checkpoint is written again.
        purge = tracked.step + 1 if tracked.step else None
        self.writer = SummaryWriter(tracked.folder / _name(tracked), purge_step=purge)
        self.step = tracked.step
        if not tracked.step:
            rows = [f"| {key} | `{value}` |" for key, value in tracked.settings.items()]
            self.writer.add_text("settings", "\n".join(["| key | value |", "|---|---|", *rows]))

    def write(self, event: Event) -> None:
        self.step = getattr(event, "step", self.step)
        for name, value in numbers_of(event).items():
            self.writer.add_scalar(name, value, self.step)
        if isinstance(event, Finished):
            self.writer.flush()

    def close(self) -> None:
        self.writer.close()


def _name(tracked: Tracked) -> str:
    """With a hash of the path outside the run folder, where another run may have its name."""
    run = tracked.run.resolve()
    if tracked.folder.resolve().is_relative_to(run):
        return run.name
    return f"{run.name}-{hashlib.sha256(os.fsencode(run)).hexdigest()[:8]}"
