"""A prepared training run: what all its stages share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cotrunk.data.batches.stream import Stream
from cotrunk.data.batches.text import PairFormat, Template
from cotrunk.data.reading.splits import Splits
from cotrunk.data.tokens.cache import Corpus
from cotrunk.learn.stage import Stage
from cotrunk.learn.untrained import Untrained
from cotrunk.model.sharing.network import Network
from cotrunk.progress import OnProgress, ProgressUpdate, ignore_progress
from cotrunk.runs.cost import Meter
from cotrunk.runs.events import Finding
from cotrunk.runs.folder import RunFolder


@dataclass
class Interrupt:
    """Set by a signal handler; checked between steps and between batches of an evaluation."""

    signal: int | None = None

    def check(self) -> None:
        if self.signal is not None:
            raise Interrupted(self.signal)


class Interrupted(Exception):
    def __init__(self, signal: int) -> None:
        super().__init__(f"interrupted by signal {signal}")
        self.signal = signal


@dataclass(frozen=True)
class Run:
    """A training run whose settings are checked and data read, before its folder is changed.

    Steps count through all stages. ``ends`` are the last steps of the stages, unless they stop
    early; ``make_stage`` is called when a stage starts, because it may depend on the weights that
    earlier stages trained. ``record`` becomes run.json; ``documents`` are saved with every network.
    ``keep`` names the score that selects the best network. ``meter`` measures what the run costs.
    ``splits``: the texts that were taken out of the training files; saved with every network, so
    that it can be evaluated on them. ``untrained``: parameters that checkpoints leave out.
    ``save_again``: lost networks to save again, from the checkpoint that the run resumes from.
    """

    folder: RunFolder
    network: Network
    train: Mapping[str, Corpus]
    dev: Mapping[str, Corpus]
    pair_formats: Mapping[str, PairFormat]
    template: Template
    streams: tuple[Stream, ...]
    ends: tuple[int, ...]
    make_stage: Callable[["Run", int], Stage]
    keep: str
    max_seconds: float | None
    record: Mapping[str, object]
    documents: Mapping[str, object]
    meter: Meter
    splits: Splits | None = None
    untrained: Untrained = field(default_factory=Untrained)
    keep_checkpoints: int = 2
    save_again: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    on_progress: OnProgress = ignore_progress
    interrupt: Interrupt = field(default_factory=Interrupt)

    @property
    def steps(self) -> int:
        return self.ends[-1]

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    def first_step(self, stage: int) -> int:
        return self.ends[stage - 1] if stage else 0

    def on_progress_or_stop(self, update: ProgressUpdate) -> None:
        """Progress callback of long operations while training; also stops them on interrupt."""
        self.interrupt.check()
        self.meter.tick()
        self.on_progress(update)
