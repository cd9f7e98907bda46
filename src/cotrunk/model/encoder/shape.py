"""The sizes of an encoder: from a published config.json, or by name."""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cotrunk.errors import UserError, did_you_mean

Family = Literal["bert", "roberta", "distilbert"]
Size = tuple[int, ...]
LinearMap = Literal["query", "key", "value", "out", "up", "down"]
"""A matrix of a layer, by its output; a layer's ``qkv`` stacks the first three."""

MODEL_TYPES: dict[str, Family] = {
    "bert": "bert",
    "roberta": "roberta",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "distilbert": "distilbert",
}
ARCHITECTURES: dict[Family, str] = {
    "bert": "BertModel",
    "roberta": "RobertaModel",
    "distilbert": "DistilBertModel",
}

_BERT_KEYS = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
_DISTILBERT_KEYS = {
    "layers": "n_layers",
    "width": "dim",
    "heads": "n_heads",
    "inner": "hidden_dim",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
}
KEYS: dict[Family, dict[str, str]] = {
    "bert": _BERT_KEYS,
    "roberta": _BERT_KEYS,
    "distilbert": _DISTILBERT_KEYS,
}

# Keys that change what the encoder computes, with the only supported value.
# None: the key must be absent or null.
ONLY: dict[str, object] = {
    "hidden_act": "gelu",
    "activation": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "quantization_config": None,
    "auto_map": None,  # points to the author's code, which is never run
}

SAVED_TYPE = "cotrunk"
MOST_LAYERS = 256
MOST_ROWS = 2**24  # of any table or matrix: far above every published model


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder, as its config.json gives them.

    ``segments`` is 0 where the family has no segment table. ``first_position`` is the row of the
    position table for the first token: RoBERTa starts after its padding index.
    """

    family: Family
    layers: int
    width: int
    heads: int
    inner: int
    vocabulary: int
    positions: int
    segments: int
    first_position: int
    pooler: bool
    norm_eps: float
    dropout: float
    attention_dropout: float

    @property
    def max_tokens(self) -> int:
        return self.positions - self.first_position


def shape_from_config(config: Mapping[str, object], place: str) -> Shape:
    """The shape from a published config.json; ``place`` names that file in errors."""
    family = _family(config, place)
    keys, read = KEYS[family], _Reader(config, place)
    distilbert = family == "distilbert"
    shape = Shape(
        family=family,
        layers=read.whole(keys["layers"], high=MOST_LAYERS),
        width=read.whole(keys["width"]),
        heads=read.whole(keys["heads"]),
        inner=read.whole(keys["inner"]),
        vocabulary=read.whole(keys["vocabulary"]),
        positions=read.whole(keys["positions"]),
        segments=0 if distilbert else read.whole("type_vocab_size", default=2),
        first_position=(
            read.whole("pad_token_id", low=0, default=1) + 1 if family == "roberta" else 0
        ),
        pooler=not distilbert,
        norm_eps=1e-12 if distilbert else read.fraction("layer_norm_eps", 1e-12),
        dropout=read.fraction(keys["dropout"], 0.1),
        attention_dropout=read.fraction(keys["attention_dropout"], 0.1),
    )
    if problems := read.problems or _contradictions(shape, keys, place):
        raise UserError(*problems)
    return shape


class _Reader:
    """Reads the numbers of a config.json and gathers its ``problems``."""

    def __init__(self, config: Mapping[str, object], place: str) -> None:
        self.config, self.place = config, place
        self.problems = [
            f"{place}: {key} = {reprlib.repr(config[key])} is not supported"
            + ("" if only is None else f", only {only!r} is")
            for key, only in ONLY.items()
            if config.get(key) is not None and config[key] != only
        ]

    def whole(
        self, key: str, low: int = 1, high: int = MOST_ROWS, default: int | None = None
    ) -> int:
        value = self.config.get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._refuse(key, f"a whole number from {low} to {high}")
        return low

    def fraction(self, key: str, default: float) -> float:
        value = self.config.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
            return float(value)
        self._refuse(key, "a number from 0 to below 1")
        return default

    def _refuse(self, key: str, rule: str) -> None:
        self.problems.append(f"{self.place}: {_found(self.config, key)}; must be {rule}")


def _contradictions(shape: Shape, keys: Mapping[str, str], place: str) -> list[str]:
    if shape.width % shape.heads:
        return [
            f"{place}: {keys['width']} = {shape.width} is not divisible by "
            f"{keys['heads']} = {shape.heads}"
        ]
    if shape.max_tokens < 1:
        return [
            f"{place}: {keys['positions']} = {shape.positions} leaves no position for a token; "
            f"the first position is {shape.first_position}"
        ]
    return []


def config_from_shape(shape: Shape) -> dict[str, object]:
    """The content of a config.json that ``transformers`` reads as this shape."""
    distilbert = shape.family == "distilbert"
    config: dict[str, object] = {
        "architectures": [ARCHITECTURES[shape.family]],
        "model_type": shape.family,
        "activation" if distilbert else "hidden_act": "gelu",
        "pad_token_id": shape.first_position - 1 if shape.family == "roberta" else 0,
    }
    config |= {key: getattr(shape, ours) for ours, key in KEYS[shape.family].items()}
    if not distilbert:
        config |= {"type_vocab_size": shape.segments, "layer_norm_eps": shape.norm_eps}
    return config


def config_of_saved(shape: Shape) -> dict[str, object]:
    """The config.json of a saved network: of a type that ``transformers`` refuses to open.

    Its tensors have other names, so ``transformers`` would open it with random weights.
    """
    return {"model_type": SAVED_TYPE, "encoder": config_from_shape(shape)}


def shape_of_saved(config: object, place: str) -> Shape:
    match config:
        case {"model_type": str(name), "encoder": dict(encoder)} if name == SAVED_TYPE:
            return shape_from_config(encoder, place)
    raise UserError(f"{place}: is not the config of a saved network")


def named(name: str, place: str) -> Shape:
    """The shape called ``name`` in ``NAMED``."""
    if name in NAMED:
        return NAMED[name]
    hint = did_you_mean(name, NAMED)
    raise UserError(f"{place}: {name!r} is not a shape; shapes are {', '.join(NAMED)}{hint}")


def embeddings_sizes(shape: Shape) -> dict[str, Size]:
    tables = {
        "words.weight": (shape.vocabulary, shape.width),
        "positions.weight": (shape.positions, shape.width),
    }
    if shape.segments:
        tables["segments.weight"] = (shape.segments, shape.width)
    return {**tables, **_norm("norm", shape.width)}


def layer_sizes(shape: Shape) -> dict[str, Size]:
    """The tensors of one layer; query, key and value projections are stacked in one matrix."""
    return {
        **_linear("attention.qkv", shape.width, 3 * shape.width),
        **_linear("attention.out", shape.width, shape.width),
        **_norm("attention.norm", shape.width),
        **_linear("up", shape.width, shape.inner),
        **_linear("down", shape.inner, shape.width),
        **_norm("norm", shape.width),
    }


def linear_maps(shape: Shape) -> dict[LinearMap, tuple[int, int]]:
    """Input and output width of each matrix of a layer."""
    width, inner = shape.width, shape.inner
    return {
        "query": (width, width),
        "key": (width, width),
        "value": (width, width),
        "out": (width, width),
        "up": (width, inner),
        "down": (inner, width),
    }


def pooler_sizes(shape: Shape) -> dict[str, Size]:
    """Also for families without a pooler: a new one has this size."""
    return {"weight": (shape.width, shape.width), "bias": (shape.width,)}


def masked_head_sizes(shape: Shape) -> dict[str, Size]:
    """The tensors of the head that predicts masked words, without the word table."""
    return {
        **_linear("dense", shape.width, shape.width),
        **_norm("norm", shape.width),
        "bias": (shape.vocabulary,),
    }


def tensor_sizes(shape: Shape) -> dict[str, Size]:
    """Every tensor of the published encoder, under our names."""
    sizes = {f"embeddings.{name}": size for name, size in embeddings_sizes(shape).items()}
    for depth in range(shape.layers):
        sizes |= {f"layers.{depth}.{name}": size for name, size in layer_sizes(shape).items()}
    if shape.pooler:
        sizes |= {f"pooler.{name}": size for name, size in pooler_sizes(shape).items()}
    return sizes


def parameters(shape: Shape) -> dict[str, int]:
    """Parameter counts of the embeddings, one layer and the pooler."""
    parts = {
        "embeddings": embeddings_sizes(shape),
        "layer": layer_sizes(shape),
        "pooler": pooler_sizes(shape),
    }
    return {part: sum(math.prod(size) for size in sizes.values()) for part, sizes in parts.items()}


def _family(config: Mapping[str, object], place: str) -> Family:
    name = config.get("model_type")
    if isinstance(name, str) and name in MODEL_TYPES:
        return MODEL_TYPES[name]
    if name == SAVED_TYPE:
        raise UserError(
            f"{place}: is a network of a run; to start from it, set train.init_from to the run"
        )
    known = ", ".join(MODEL_TYPES)
    raise UserError(f"{place}: {_found(config, 'model_type')}; supported: {known}")


def _found(config: Mapping[str, object], key: str) -> str:
    return f"{key} = {reprlib.repr(config[key])}" if key in config else f"{key} is missing"


def _linear(name: str, wide_in: int, wide_out: int) -> dict[str, Size]:
    return {f"{name}.weight": (wide_out, wide_in), f"{name}.bias": (wide_out,)}


def _norm(name: str, width: int) -> dict[str, Size]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _bert(layers: int, width: int, heads: int, inner: int, vocabulary: int) -> Shape:
    return Shape(
        family="bert",
        layers=layers,
        width=width,
        heads=heads,
        inner=inner,
        vocabulary=vocabulary,
        positions=512,
        segments=2,
        first_position=0,
        pooler=True,
        norm_eps=1e-12,
        dropout=0.1,
        attention_dropout=0.1,
    )


def _roberta(layers: int, width: int, heads: int, inner: int, vocabulary: int) -> Shape:
    same = _bert(layers, width, heads, inner, vocabulary)
    return replace(
        same, family="roberta", positions=514, segments=1, first_position=2, norm_eps=1e-5
    )


def _distilbert(layers: int, width: int, heads: int, inner: int, vocabulary: int) -> Shape:
    same = _bert(layers, width, heads, inner, vocabulary)
    return replace(same, family="distilbert", segments=0, pooler=False)


# layers, width, heads, inner, vocabulary
NAMED: dict[str, Shape] = {
    "tiny": _bert(2, 32, 4, 64, 300),
    "tiny-roberta": _roberta(2, 32, 4, 64, 300),
    "tiny-distilbert": _distilbert(2, 32, 4, 64, 300),
    "minilm": _bert(6, 384, 12, 1536, 30522),
    "bert-base": _bert(12, 768, 12, 3072, 30522),
    "bert-large": _bert(24, 1024, 16, 4096, 30522),
    "roberta-base": _roberta(12, 768, 12, 3072, 50265),
    "distilbert-base": _distilbert(6, 768, 12, 3072, 30522),
}
