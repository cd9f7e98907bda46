"""Documents of studies as collected, made up, and the page that is written of them."""

from collections import Counter
from itertools import cycle
from pathlib import Path

from cotrunk.study.definition import read_study
from cotrunk.study.plan import Choices
from cotrunk.study.study import conclude
from tools.results.collect import Trial, collected
from tools.results.documents import Result, Results, ZeroShot
from tools.results.headline import headline_of
from tools.results.page import page
from tools.results.sharing import depths
from tools.results.texts import read_texts

FOLDER = Path("/home/someone/my studies/hybrid")
DATA = Path("/mnt/course")
TEXTS = read_texts()
VERDICTS = ("confirmed", "refuted", "undecided")


def trial(plan: str, seed: int, *, sweep: str = "plans") -> Trial:
    shared, _ = depths(plan)
    score = 0.75 - 0.002 * shared + 0.001 * seed
    return Trial(
        sweep=sweep,
        plan=plan,
        choices={},
        seed=seed,
        scores=dict.fromkeys(("sst", "para", "sts", "official", "mean"), score),
        parameters=1000 * (10 - shared),
        weights="minilm",
        epochs=6,
        steps=180,
        best_step=40,
        seconds=100.0,
        cpu_seconds=180.0,
    )


def trials_of(name: str) -> list[Trial]:
    """Two seeds of each plan of ``hybrid``, and of one trial in every other sweep."""
    plans = {"apart": ["I6"], "plans": ["S1 I5", "S2 I4", "S3 I3", "S4 I2", "S5 I1", "S6"]}
    return [
        trial(plan, seed, sweep=sweep)
        for sweep in read_study(name, "quick").sweeps
        for plan in plans.get(sweep, ["S3 I3"])
        for seed in (0, 1)
    ]


def compared(verdict: str) -> dict:
    found = {"comparison": "one - other", "on": "official", "p": 0.5, "claimed": [0.0, None]}
    shown = {"measure": "official", "shown": "+0.004 [-0.010, +0.020] (3 and 2 seeds)"}
    numbers = {"found": 0.004, "low": -0.01, "high": 0.02}
    return {**found, **shown, **numbers, "seeds": [3, 2], "verdict": verdict}


def document_of(
    name: str, tmp_path: Path, *, trials: list[Trial] | None = None, weights: str = ""
) -> dict:
    """A study as it would be collected, with values that no run has measured."""
    found = conclude(read_study(name, "quick"), Choices(), tmp_path).document()
    turns = cycle(VERDICTS)
    for claim in found["claims"]:
        if claim["test"] != "none":
            claim["verdict"] = next(turns)
            claim["evidence"] = {"why": "", "comparisons": [compared(claim["verdict"])]}
    for row in (row for table in found["tables"] for row in table["rows"]):
        row["seeds"] = 2
        row["ours"] = dict.fromkeys(row["ours"], 0.5)
        row["spread"] = dict.fromkeys(row["ours"], 0.01)
    found["dev_rows"] = 2000
    found["skipped"] = {"reviews": f"ids-cfimdb-train.csv: not in {DATA}"}
    found["broken"] = [{"run": "lost/x", "why": f"{FOLDER}/lost/x/run.json: no file"}]
    found["failed"] = [{"trial": "lost/y", "why": "No space left on device: '/var/tmp/a b'"}]
    asked = {"study": name, "budget": "quick", "data": str(DATA), "seeds": 2}
    asked |= {"weights": weights or None, "set": ["train.epochs=2"]}
    planned = Counter(trial.sweep for trial in trials_of(name))
    done = trials_of(name) if trials is None else trials
    return collected(found, asked, done, planned, machine=[FOLDER, DATA])


def partial(name: str, tmp_path: Path, *sweeps: str) -> dict:
    """The study when only some of its sweeps have run."""
    trials = [trial for trial in trials_of(name) if trial.sweep in sweeps]
    return document_of(name, tmp_path, trials=trials)


def headline_document(tmp_path: Path, seeds: int = 3) -> dict:
    found = conclude(read_study("headline", "quick"), Choices(data=DATA), tmp_path).document()
    found |= {"failed": [{"trial": "headline/z", "why": "out of memory"}], "dev_rows": None}
    trials = [trial("S3 I3", seed, sweep="headline") for seed in range(seeds)]
    asked = {"study": "headline", "budget": "quick", "data": str(DATA)}
    document = collected(found, asked, trials, {"headline": 3}, machine=[DATA])
    return headline_of(document, tries=7, chosen_at=0.76)


def results_of(*documents: dict, headline: dict | None = None) -> Results:
    return Results(
        studies={d["study"]: Result(d["study"], d) for d in documents},
        headline=Result("headline", headline) if headline else None,
        zero_shot=ZeroShot(para=0.785, sts=0.838, threshold=0.7),
    )


def written(results: Results) -> str:
    return page(results, TEXTS, drawn=())


def section(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
