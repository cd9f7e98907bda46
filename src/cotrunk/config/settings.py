"""What a TOML config may contain: its tables, keys, types, limits and defaults."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticCustomError

from cotrunk.config.findings import DEVICE, NAME

Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]
Threads = Annotated[int, Field(ge=1, le=1024)]
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


def _as_lr_if_none(value: object) -> object:
    """Runs of earlier versions recorded None for the rate of the encoder."""
    return "lr" if value is None else value


def _distinct(entries: list[Any]) -> list[Any]:
    for entry in entries:
        if entries.count(entry) > 1:
            rule = f"must list every entry once; {entry} is there {entries.count(entry)} times"
            raise PydanticCustomError("distinct", rule)
    return entries


HeadRate = Annotated[
    Annotated[float, Field(gt=0, le=10)] | Literal["lr"], BeforeValidator(_as_lr_if_none)
]


Layers = Annotated[list[Annotated[int, Field(ge=0)]], AfterValidator(_distinct)]


class Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )


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
    layers: Layers | Literal["all"] = "all"
    who: str = "I"
    gelu: bool = False
    bias: bool = False


class LowRank(Part):
    """Low-rank adapters on the linear maps of the encoder's layers."""

    rank: Positive = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0
    who: str = "S"
    on: Annotated[list[LinearMap], Field(min_length=1), AfterValidator(_distinct)] = [
        "query", "key", "value", "out", "up", "down",
    ]  # fmt: skip
    layers: Layers | Literal["all"] = "all"
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
    epochs: Positive = 5
    batch: Positive = 8
    lr: Annotated[float, Field(gt=0, le=10)] = 1e-4
    head_lr: HeadRate = 1e-3
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    rates: dict[str, Annotated[float, Field(gt=0, le=10)]] = {}
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 11711
    split_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    sampling: Sampler = "sqrt"
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
    threads: Threads | None = None


class Track(Part):
    """[track]: programs that record the training, and where they write."""

    to: list[Literal["tensorboard", "mlflow"]] = []
    folder: str | None = None


class Settings(Part):
    """A complete config."""

    encoder: Encoder = Encoder()
    sharing: Sharing = Sharing()
    tasks: Annotated[dict[TaskName, TaskPart], Field(min_length=1)]
    train: Train = Train()
    stages: list[dict[str, Any]] = []
    track: Track = Track()

    @property
    def stages_of_training(self) -> list[Train]:
        """[train] with the changes of each [[stages]] table; without stages, [train] alone."""
        raw = self.train.model_dump()
        return [Train.model_validate({**raw, **changes}) for changes in self.stages or [{}]]
