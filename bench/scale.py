"""2,000,000 rows compared with 20,000: memory, start-up time, rows tokenised per CPU second."""

import csv
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bench.timing import Result, own_seconds, ratio_of
from bench.work import Bench, empty_cache, settings_of
from cotrunk.build.sources import existing_sources
from cotrunk.build.tasks import tasks_of
from cotrunk.data.reading.examples import Rows, Source
from cotrunk.data.tokens.cache import load_corpus
from cotrunk.data.tokens.store import cache_folder, is_intact
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.task import Task
from cotrunk.model.weights.pretrained import find, load_tokenizer

FEW, MANY, MANY_IN_A_HURRY = 20_000, 2_000_000, 200_000
TOKENISED, ASKED = 200_000, 20_000
WORDS_PER_TEXT = (6, 15)
FOREIGN = ("café", "naïve", "größe", "“so”", "日本", "Москва", "—")
STEPS = 100
LOOK_EVERY = 0.1
TASKS = {"single": Task("t", 1, Classes(tuple("01234"))), "pairs": Task("t", 2, Binary())}
PEAK = """
import pathlib, sys
from cotrunk.cli.main import main
code = main(sys.argv[1:])
status = pathlib.Path("/proc/self/status").read_text()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
sys.exit(code)
"""
CONFIG = """
encoder = {{ weights = "random:tiny", max_tokens = 64 }}
sharing = {{ encoder = "S2" }}
train = {{ evaluate = "never", threads = 1, device = "cpu", max_steps = {steps} }}
[tasks.t]
kind = "classes"
classes = 5
text = ["text1"]
label = "label"
train = "{file}"
"""


@dataclass(frozen=True)
class Run:
    """``peak``: memory in MB; ``together``: including child processes, sampled; ``seconds``: from
    the start of the process to its first step.
    """

    peak: float
    together: float
    seconds: float


def scale(bench: Bench) -> Iterator[Result]:
    many = MANY_IN_A_HURRY if bench.quick else MANY
    words = _words(bench)
    with tempfile.TemporaryDirectory() as place:
        files = {
            rows: _write(Path(place) / f"{rows}.csv", TASKS["single"], words, rows)
            for rows in (FEW, many)
        }
        cold = [_train(file, steps=1) for file in files.values()]
        few, ours = ([run.together] for run in cold)
        yield _result("scale-memory-cold", ours, few, unit="MB at most, all processes")
        warm = [[_train(f, steps=STEPS) for f in files.values()] for _ in range(bench.rounds(3))]
        few, ours = ([run.peak for run in runs] for runs in zip(*warm, strict=True))
        yield _result("scale-memory", ours, few, unit="MB at most")
        starts: dict[int, list[float]] = {many: [], FEW: []}
        for _ in range(bench.rounds(6)):
            for rows, seconds in starts.items():
                seconds.append(_train(files[rows], steps=1).seconds)
        yield _result("scale-warm-start", starts[many], starts[FEW], unit="s")
        without = [seconds - _verification() for seconds in starts[many]]
        yield _result("cache-verification", starts[many], without, unit="s with, s without")
    for name, task in TASKS.items():
        yield from _tokenising(bench, name, task, words)


def _result(name: str, ours: list[float], peer: list[float], *, unit: str) -> Result:
    ratio, low, high = ratio_of(ours, peer, busy=False)
    a, b = statistics.median(ours), statistics.median(peer)
    return Result(name, a, b, ratio, low, high, "times", unit, len(ours))


def _train(file: Path, *, steps: int) -> Run:
    with tempfile.TemporaryDirectory() as place:
        config, out = Path(place) / "run.toml", Path(place) / "run"
        config.write_text(CONFIG.format(steps=steps, file=file.as_posix()))
        begun = time.time()
        command = [sys.executable, "-c", PEAK, "train", str(config), "--out", str(out), "--json"]
        output, together = Path(place) / "output", 0.0
        silent = subprocess.DEVNULL
        with (
            output.open("w") as words,
            subprocess.Popen(command, stdout=words, stderr=silent) as run,
        ):
            while run.poll() is None:
                together = max(together, _resident(run.pid))
                time.sleep(LOOK_EVERY)
        if run.returncode:
            raise RuntimeError(f"training ended with code {run.returncode}")
        # With one step, that step is the last write to the file.
        seconds = (out / "metrics.jsonl").stat().st_mtime - begun
        peak = float(output.read_text().split()[-1])
    return Run(peak, together, seconds)


def _verification() -> float:
    """Seconds to verify the largest corpus in the cache, which is part of every start."""
    corpora = [path for path in (cache_folder() / "tokens").iterdir() if path.is_dir()]
    largest = max(corpora, key=lambda corpus: (corpus / "line").stat().st_size)
    begun = time.perf_counter()
    if not is_intact(largest):
        raise RuntimeError(f"{largest} is damaged")
    return time.perf_counter() - begun


def _resident(process: int) -> float:
    """MB of a process and of those it started that are there now."""
    root = Path(f"/proc/{process}")
    try:
        held = int((root / "statm").read_text().split()[1]) * resource.getpagesize() / 2**20
        others = [file.read_text().split() for file in root.glob("task/*/children")]
    except OSError:  # it has just ended
        return 0.0
    return held + sum(_resident(int(other)) for some in others for other in some)


def _tokenising(bench: Bench, name: str, task: Task, words: list[str]) -> Iterator[Result]:
    """A file checked, tokenised and cached on all cores, compared with only tokenising its texts.

    The peer gets only the first rows: its rows per second do not depend on their number.
    """
    tokenizer = load_tokenizer(find("minilm", base=Path.cwd()))
    ours, peer = [], []
    with tempfile.TemporaryDirectory() as place:
        path = _write(Path(place) / "rows.csv", task, words, TOKENISED)
        source = Source(path, _columns(task), "label")
        texts = [text for row in islice(Rows(task, source), ASKED) for text in row.texts]
        for _ in range(bench.rounds(6)):
            begun = own_seconds()
            with empty_cache():
                load_corpus(task, source, tokenizer)
                ours.append(TOKENISED / (own_seconds() - begun))
            begun = own_seconds()
            tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            peer.append(ASKED / (own_seconds() - begun))
    yield _result(f"tokenise-rows-{name}", ours, peer, unit="rows per CPU s")


def _columns(task: Task) -> tuple[str, ...]:
    return tuple(f"text{side + 1}" for side in range(task.texts))


def _words(bench: Bench) -> list[str]:
    """All words of the training texts, with repetitions."""
    settings = settings_of(bench)
    rows = (
        row
        for task in tasks_of(settings)
        for source in existing_sources(settings, task, "train", Path.cwd())
        for row in Rows(task, source)
    )
    return [word for row in rows for text in row.texts for word in str(text).split()]


def _write(path: Path, task: Task, words: list[str], rows: int) -> Path:
    """Every 10th text has a unique word, every 30th a non-ASCII one."""
    rng = random.Random(0)
    labels = max(task.outputs, 2)

    def text(number: int) -> str:
        drawn = rng.choices(words, k=rng.randint(*WORDS_PER_TEXT))
        if not number % 10:
            drawn.append(f"w{rng.getrandbits(40):x}")
        if not number % 30:
            drawn.append(rng.choice(FOREIGN))
        return " ".join(drawn)

    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", *_columns(task), "label"])
        for number in range(rows):
            texts = [text(task.texts * number + side) for side in range(task.texts)]
            table.writerow([f"{rng.getrandbits(100):025x}", *texts, number % labels])
    return path


FAMILY = {"scale": scale}
