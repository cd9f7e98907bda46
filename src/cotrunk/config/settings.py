"""The TOML config as checked settings. Every error names its key."""

import tomllib
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from cotrunk.config.findings import DEVICE, NAME, findings, rule
from cotrunk.config.kinds import Kinds, kind_findings, wrong_keep
from cotrunk.config.overrides import Keys, apply_changes, is_changed, remove_keys
from cotrunk.errors import UserError, did_you_mean, spelled
from cotrunk.kinds import KINDS
from cotrunk.numbers import exact_float

MOST_BYTES = 2**20
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
TaskName = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]
ShareOfTrain = Annotated[float, Field(gt=0, lt=1)]
Files = str | Annotated[list[str], Field(min_length=1)]
Pooling = Literal["pooler", "cls", "mean", "max", "sum"]
Pair = Literal["joined", "concat", "hadamard", "difference", "all", "sum", "cosine"]
LinearMap = Literal["query", "key", "value", "out", "up", "down"]
Sampler = Literal[
    "together", "largest", "smallest", "scaled", "sequential", "round-robin",
    "proportional", "sqrt", "power", "annealed", "temperature",
]  # fmt: skip
Method = Literal[
    "sum", "mean", "pcgrad", "gradvac", "upgrad", "mgda", "cagrad", "nash-mtl", "imtl-g",
    "aligned-mtl", "dualproj", "fairgrad",
]  # fmt: skip


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Encoder(Part):
    """The pretrained encoder, its sequence length, dropout and pooling."""

    weights: str = "minilm"
    max_tokens: Annotated[int, Field(ge=4, le=100_000)] = 128
    dropout: Share | None = None
    attention_dropout: Share | None = None
    pooling: Pooling = "mean"
    reset_layers: Annotated[int, Field(ge=0)] = 0


class Projected(Part):
    """Projected attention layers, parallel to the encoder's layers."""

    size: Positive = 204
    heads: Positive = 12
    layers: list[Annotated[int, Field(ge=0)]] | Literal["all"] = "all"
    who: str = "I"
    gelu: bool = False
    bias: bool = False


class LowRank(Part):
    """Low-rank adapters on the linear maps of the encoder's layers."""

    rank: Positive = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0
    who: str = "S"
    on: Annotated[list[LinearMap], Field(min_length=1)] = [
        "query", "key", "value", "out", "up", "down",
    ]  # fmt: skip
    layers: list[Annotated[int, Field(ge=0)]] | Literal["all"] = "all"
    dropout: Share = 0.0
    merge_at_save: bool = False


class Soft(Part):
    """Soft sharing: penalties that pull the copies of a layer towards each other."""

    l2: Annotated[float, Field(ge=0)] = 0.0
    trace: Annotated[float, Field(ge=0)] = 0.0


class Sharing(Part):
    """Sharing plans, such as "S3 I3"; None: shared as the adjacent layer is."""

    encoder: str | None = None
    embeddings: str | None = None
    pooler: str | None = None
    neck: str = ""
    pooled_norm: str | None = None
    pal: Projected | None = None
    lora: LowRank | None = None
    soft: Soft = Soft()


class Head(Part):
    """The feed-forward head of a task."""

    depth: Annotated[int, Field(ge=1, le=20)] = 1
    width: Positive = 256
    activation: Literal["relu", "gelu", "tanh"] = "relu"
    activate_last: bool = False
    dropout: Share = 0.1
    inner_dropout: Share = 0.0
    output_dropout: Share = 0.0
    cosine: Literal["shifted", "sigmoid", "relu"] = "shifted"
    projection: bool = False


class Reading(Part):
    """What a head takes from the heads of other tasks, and where gradients flow."""

    what: Literal["logits", "probabilities", "hidden"] = "logits"
    gradient: Literal["stop", "frozen", "flow"] | Annotated[float, Field(ge=0, le=1)] = "stop"
    combine: Literal["concat", "attention"] = "concat"


class TaskPart(Part):
    """One task: its kind, data files, columns and head.

    Other keys belong to its kind (`config.kinds`).
    """

    model_config = ConfigDict(extra="allow")

    kind: str
    text: Annotated[list[str], Field(min_length=1, max_length=2)] | None = None
    label: str | None = None
    id: str | None = None
    train: Files | None = None
    dev: Files | ShareOfTrain | None = None
    test: Files | ShareOfTrain | None = None
    skip_bad_rows: bool = False
    sparse_labels: bool | None = None
    quoting: Literal["csv", "none"] = "csv"
    encoding: str = "utf-8"
    columns: list[str] = []
    pooling: Pooling | None = None
    pair: Pair = "joined"
    segments: bool = True
    swap: bool = False
    head: Head = Head()
    reads: list[TaskName] = []
    reading: Reading = Reading()
    loss: str | None = None
    weight: Annotated[float, Field(ge=0)] = 1.0
    label_smoothing: Share = 0.0
    batch: Positive | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None


class Train(Part):
    """How training runs; ``tasks`` is for stages only (None: all tasks)."""

    tasks: Annotated[list[TaskName], Field(min_length=1)] | None = None
    epochs: Positive = 3
    batch: Positive = 32
    lr: Annotated[float, Field(gt=0, le=10)] = 5e-5
    head_lr: Annotated[float, Field(gt=0, le=10)] | None = None
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    rates: dict[str, Annotated[float, Field(gt=0, le=10)]] = {}
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 11711
    split_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    sampling: Sampler = "together"
    alpha: Annotated[float, Field(ge=0, le=1)] = 1.0
    temperature: Annotated[float, Field(gt=0)] = 1.0
    cap: Positive | None = None
    steps_per_epoch: Positive | None = None
    batches_per_epoch: Positive | None = None
    share_of_data: Annotated[float, Field(gt=0, le=1)] | None = None
    gradients: Method = "sum"
    gradient_scope: Literal["group", "layer"] = "group"
    gradient_options: dict[str, float | str] = {}
    gradient_seed: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    optimizer: Literal["adamw", "course"] = "adamw"
    schedule: Literal["none", "linear", "cosine", "one-cycle"] = "linear"
    warmup: Share | None = None
    decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(ge=0)] = 1.0
    accumulate: Positive = 1
    max_steps: Annotated[int, Field(ge=0)] | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None
    evaluate: Literal["epoch", "never"] | Positive = "epoch"
    checkpoint: Literal["epoch", "never"] | Positive = "epoch"
    keep: str = "official"
    keep_each: bool = False
    keep_checkpoints: Positive = 2
    early_stopping: Positive | None = None
    ema: Share | None = None
    regularize: Literal["none", "r-drop", "smart"] = "none"
    regularize_options: dict[str, float] = {}
    loss_weighting: Literal["fixed", "uncertainty", "dwa", "gradnorm"] = "fixed"
    loss_weighting_options: dict[str, float] = {}
    on_nan: Literal["stop", "skip"] = "stop"
    freeze: str = "nothing"
    init_from: str | None = None
    device: Annotated[str, StringConstraints(pattern=DEVICE)] = "auto"
    threads: Positive | None = None


class Settings(Part):
    """A complete config."""

    encoder: Encoder = Encoder()
    sharing: Sharing = Sharing()
    tasks: Annotated[dict[TaskName, TaskPart], Field(min_length=1)]
    train: Train = Train()
    stages: list[dict[str, Any]] = []

    @property
    def stages_of_training(self) -> list[Train]:
        """[train] with the changes of each [[stages]] table; without stages, [train] alone."""
        raw = self.train.model_dump()
        return [Train.model_validate({**raw, **changes}) for changes in self.stages or [{}]]


ONCE_PER_RUN = (
    "device", "init_from", "keep", "keep_checkpoints", "max_seconds", "seed", "split_seed",
    "threads",
)  # fmt: skip
"""Keys of [train] that a stage cannot change."""
CHANGED_BY = spelled(command="--set ", python="overrides: ")
REPLACE_STAGES = spelled(command="--set 'stages=[...]'", python="overrides=['stages=[...]']")


def read_settings(
    path: Path,
    changes: list[str] | None = None,
    kinds: Kinds = KINDS,
    *,
    unset: Sequence[str] = (),
) -> Settings:
    """Read a config without the ``unset`` keys, with ``key=value`` changes; all errors at once."""
    raw = read_raw(path)
    remove_keys(raw, unset)
    changed = apply_changes(raw, changes or [])
    return check_settings(raw, place=str(path), changed=changed, kinds=kinds)


def read_raw(path: Path) -> dict[str, Any]:
    """A config as it is written, not yet checked."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path}: a config must not exceed {MOST_BYTES:,} bytes")
        text = content.decode()
    except FileNotFoundError:
        beside = [other.name for other in path.parent.glob("*.toml")]
        python = f"`cotrunk.init(files, {str(path)!r})` creates one"
        start = "; " + spelled(command=f"`cotrunk init -o {path}` creates one", python=python)
        hint = did_you_mean(path.name, beside, likeness=0.8) or start
        raise UserError(f"{path}: no such file{hint}") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder; give a TOML config file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: a config must be a TOML file in UTF-8; {error}") from None
    try:
        return tomllib.loads(text, parse_float=exact_float)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML; {error}") from None
    except ValueError as error:
        raise UserError(f"{path}: {error}; write 0 or a larger number") from None


def check_settings(
    raw: dict[str, Any],
    *,
    place: str,
    changed: Collection[Keys] = (),
    changed_by: str = CHANGED_BY,
    kinds: Kinds = KINDS,
) -> Settings:
    """Errors are reported at ``place``, or at ``changed_by`` for keys that were ``changed``."""
    written = partial(_place, place=place, changed=changed, changed_by=changed_by)
    found: dict[Keys, str] = {}
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        found = findings(error, raw, Settings, kinds=kinds)
    found |= kind_findings(raw, kinds, common=TaskPart.model_fields, explain=rule)
    if found:
        sections = [*Settings.model_fields, *raw]
        in_order = sorted(found, key=lambda keys: sections.index(keys[0]) if keys else 0)
        raise UserError(*(written(keys) + found[keys] for keys in in_order))
    named = {name: part.kind for name, part in settings.tasks.items()}
    wrong = [written(("train", "keep")) + x for x in wrong_keep(settings.train.keep, named, kinds)]
    if settings.train.tasks is not None:
        line = "train.tasks: only a stage can select tasks; move it to [[stages]]"
        wrong.append(written(("train", "tasks")) + line)
    for number, changes in enumerate(settings.stages, start=1):
        stage = f"{written(('stages',))}stages {number}: "
        wrong += [stage + line for line in _wrong_stage(changes, settings)]
    wrong += _idle_changes(changed, settings, changed_by)
    if wrong:
        raise UserError(*wrong)
    return settings


def _place(keys: Keys, *, place: str, changed: Collection[Keys], changed_by: str) -> str:
    return changed_by if is_changed(keys, changed) else f"{place}: "


def _wrong_stage(changes: dict[str, Any], settings: Settings) -> list[str]:
    try:
        Train.model_validate({**settings.train.model_dump(), **changes})
    except ValidationError as error:
        return list(findings(error, changes, Train, above="train.").values())
    once = [key for key in ONCE_PER_RUN if key in changes]
    wrong = [f"{key} applies to the whole run; move it to [train]" for key in once]
    for name in changes.get("tasks") or []:
        if name not in settings.tasks:
            hint = did_you_mean(name, settings.tasks)
            known = ", ".join(settings.tasks)
            wrong.append(f"tasks: {name!r} is not a task; tasks are {known}{hint}")
    return wrong


def _idle_changes(changed: Collection[Keys], settings: Settings, changed_by: str) -> list[str]:
    """Changes to [train] without effect, because every stage sets the key."""
    named = [set(stage) for stage in settings.stages] or [set()]
    idle = settings.train.model_fields_set.intersection(*named)
    return [
        f"{changed_by}train.{key} has no effect: every stage sets its own {key}; "
        f"change it in the file, or replace the stages ({REPLACE_STAGES})"
        for key in sorted(idle)
        if is_changed(("train", key), changed)
    ]
