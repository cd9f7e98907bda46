"""Maps published tensor names of the BERT family to ours and back."""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from cotrunk.errors import UserError
from cotrunk.model.encoder.shape import (
    Family,
    Shape,
    Size,
    masked_head_sizes,
    tensor_sizes,
)

# Our module -> the published modules whose rows it stacks. "{}" is the depth.
Table = Mapping[str, tuple[str, ...]]

_BERT: Table = {
    "embeddings.words": ("embeddings.word_embeddings",),
    "embeddings.positions": ("embeddings.position_embeddings",),
    "embeddings.segments": ("embeddings.token_type_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "layers.{}.attention.qkv": (
        "encoder.layer.{}.attention.self.query",
        "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value",
    ),
    "layers.{}.attention.out": ("encoder.layer.{}.attention.output.dense",),
    "layers.{}.attention.norm": ("encoder.layer.{}.attention.output.LayerNorm",),
    "layers.{}.up": ("encoder.layer.{}.intermediate.dense",),
    "layers.{}.down": ("encoder.layer.{}.output.dense",),
    "layers.{}.norm": ("encoder.layer.{}.output.LayerNorm",),
    "pooler": ("pooler.dense",),
    "mlm.dense": ("cls.predictions.transform.dense",),
    "mlm.norm": ("cls.predictions.transform.LayerNorm",),
    "mlm": ("cls.predictions",),
}
_ROBERTA: Table = {
    **_BERT,
    "mlm.dense": ("lm_head.dense",),
    "mlm.norm": ("lm_head.layer_norm",),
    "mlm": ("lm_head",),
}
_DISTILBERT: Table = {
    "embeddings.words": ("embeddings.word_embeddings",),
    "embeddings.positions": ("embeddings.position_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "layers.{}.attention.qkv": (
        "transformer.layer.{}.attention.q_lin",
        "transformer.layer.{}.attention.k_lin",
        "transformer.layer.{}.attention.v_lin",
    ),
    "layers.{}.attention.out": ("transformer.layer.{}.attention.out_lin",),
    "layers.{}.attention.norm": ("transformer.layer.{}.sa_layer_norm",),
    "layers.{}.up": ("transformer.layer.{}.ffn.lin1",),
    "layers.{}.down": ("transformer.layer.{}.ffn.lin2",),
    "layers.{}.norm": ("transformer.layer.{}.output_layer_norm",),
    "mlm.dense": ("vocab_transform",),
    "mlm.norm": ("vocab_layer_norm",),
    "mlm": ("vocab_projector",),
}
TABLES: dict[Family, Table] = {"bert": _BERT, "roberta": _ROBERTA, "distilbert": _DISTILBERT}

# The output layer of masked language modelling. Most files omit it: it is the word table.
DECODERS: dict[Family, str] = {
    "bert": "cls.predictions.decoder.weight",
    "roberta": "lm_head.decoder.weight",
    "distilbert": "vocab_projector.weight",
}

# Prefixes of the encoder's tensors in models with a head.
PREFIXES = ("model.", "bert.", "roberta.", "distilbert.")

# Old conversions from TensorFlow call a norm's weight gamma and its bias beta.
OLD_NAMES = {".gamma": ".weight", ".beta": ".bias"}

# Tensors besides the encoder in published checkpoints: index buffers and heads.
IGNORED = (
    "embeddings.position_ids",
    "embeddings.token_type_ids",
    "cls.",
    "lm_head.",
    "classifier.",
    "pre_classifier.",
    "qa_outputs.",
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
)

POOLER, MASKED_HEAD = "pooler.", "mlm."
"""Prefixes of tensors that published weights may lack."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def from_hugging_face(tensors: Mapping[str, Tensor], shape: Shape, place: str) -> dict[str, Tensor]:
    """Our float32 tensors, copied from the published ones.

    The pooler may be missing. ``mlm``, the head for masked words, is omitted if it has a problem,
    because most runs do not need it.
    """
    sources = _sources(shape)
    given = {_plain(name): name for name in tensors}
    absent = () if any(name.startswith(POOLER) for name in given) else (POOLER,)
    if masked_head_problem(tensors, shape):
        absent = (*absent, MASKED_HEAD)
    sources = {name: parts for name, parts in sources.items() if not name.startswith(absent)}
    _refuse_differences(tensors, given, _part_sizes(sources, shape), place)
    return {
        name: torch.cat([tensors[given[part]].float() for part in parts])
        for name, parts in sources.items()
    }


def masked_head_problem(tensors: Mapping[str, Tensor], shape: Shape) -> str | None:
    """Why the published tensors have no usable head for masked words; None if they have one.

    Our head is always tied to the word table, so one that was trained with a separate output layer
    cannot be used.
    """
    given = {_plain(name): tensors[name] for name in tensors}
    sources = {n: parts for n, parts in _sources(shape).items() if n.startswith(MASKED_HEAD)}
    sizes, decoder = _part_sizes(sources, shape), DECODERS[shape.family]
    if not given.keys() & sizes.keys():
        return "the weights have no head for masked words"
    for part, size in sizes.items():
        if part not in given:
            return f"the weights' head for masked words has no {part}"
        if tuple(given[part].shape) != size or given[part].dtype not in FLOATS:
            return f"{part} of the weights is not a float tensor of shape {list(size)}"
    (words,) = TABLES[shape.family]["embeddings.words"]
    table = given.get(f"{words}.weight")
    if table is not None and decoder in given and not torch.equal(given[decoder], table):
        return f"{decoder} of the weights differs from the word table"
    return None


def to_hugging_face(tensors: Mapping[str, Tensor], shape: Shape) -> dict[str, Tensor]:
    """Copies under the published names: those of the bare encoder, or with a head for masked words
    those of a model such as BertForMaskedLM.
    """
    sources, has_head = _sources(shape), any(name.startswith(MASKED_HEAD) for name in tensors)
    absent = (POOLER,) if has_head else (POOLER, MASKED_HEAD)
    missing = {name for name in sources.keys() - tensors.keys() if not name.startswith(absent)}
    unknown = tensors.keys() - sources.keys()
    if missing or unknown:
        raise ValueError(
            f"a {shape.family} encoder of {shape.layers} layers: missing {sorted(missing)}, "
            f"unknown {sorted(unknown)}"
        )
    prefix = f"{shape.family}." if has_head else ""
    return {
        part if name.startswith(MASKED_HEAD) else prefix + part: rows.clone()
        for name, tensor in tensors.items()
        for part, rows in zip(sources[name], tensor.chunk(len(sources[name])), strict=True)
    }


def _sources(shape: Shape) -> dict[str, tuple[str, ...]]:
    """Each of our tensors, with the published tensors whose rows it stacks."""
    sources = {}
    for name in _all_sizes(shape):
        depth = re.findall(r"\d+", name)
        module, _, kind = re.sub(r"\d+", "{}", name).rpartition(".")
        parts = TABLES[shape.family][module]
        sources[name] = tuple(f"{part.format(*depth)}.{kind}" for part in parts)
    return sources


def _all_sizes(shape: Shape) -> dict[str, Size]:
    head = {f"{MASKED_HEAD}{name}": size for name, size in masked_head_sizes(shape).items()}
    return {**tensor_sizes(shape), **head}


def _part_sizes(sources: Mapping[str, Sequence[str]], shape: Shape) -> dict[str, Size]:
    sizes = {}
    for name, (rows, *rest) in _all_sizes(shape).items():
        for part in sources.get(name, ()):
            sizes[part] = (rows // len(sources[name]), *rest)
    return sizes


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    for old, new in OLD_NAMES.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name


def _refuse_differences(
    tensors: Mapping[str, Tensor], given: Mapping[str, str], sizes: Mapping[str, Size], place: str
) -> None:
    """Compare ``tensors`` with the encoder's shape; reports all differences in one error."""
    present = [part for part in sizes if part in given]
    found = {part: tensors[given[part]] for part in present}
    beside = [name for name in tensors if not _plain(name).startswith(IGNORED)]
    findings = {
        "missing tensors": [part for part in sizes if part not in given],
        "unknown tensors": [repr(name) for name in beside if _plain(name) not in sizes],
        "duplicate tensors": [repr(name) for name in beside if given[_plain(name)] != name],
        "tensors whose size differs from config.json": [
            f"{part} {list(tensor.shape)} instead of {list(sizes[part])}"
            for part, tensor in found.items()
            if tuple(tensor.shape) != sizes[part]
        ],
        "tensors that are not floating point": [
            f"{part} ({tensor.dtype})"
            for part, tensor in found.items()
            if tensor.dtype not in FLOATS
        ],
    }
    lines = [f"{place}: {what}: {_listed(names)}" for what, names in findings.items() if names]
    if lines:
        raise UserError(*lines)


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
