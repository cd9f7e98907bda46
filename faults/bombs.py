"""S7: files that run code when they are unpickled, under every name that a run or a model has."""

import io
import json
import os
import pickle
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np

from cotrunk.model.encoder.shape import NAMED, config_from_shape, tensor_sizes
from cotrunk.model.weights.tokenizer import character_tokenizer
from faults.called import Said, call
from faults.figure import Figure, Size

OTHER_NAMES = (
    "model.pt", "rng_state.pth", "pytorch_model.bin", "model.ckpt", "model.pkl", "array.npy",
    ".metadata", "archive.zip", "config.yaml", "modeling.py", "model.safetensors.index.json",
)  # fmt: skip
ROWS = "id,text,label\n" + "".join(f"{n},{w},{n % 2}\n" for n, w in enumerate(["a", "b b"] * 8))
CONFIG = """
encoder = {{ weights = "{weights}" }}
sharing = {{ encoder = "S2" }}
train = {{ max_steps = 2, checkpoint = 1, batch = 4, threads = 1{freeze} }}
[tasks.t]
kind = "binary"
text = ["text"]
label = "label"
train = "rows.csv"
dev = "rows.csv"
"""
EVERY: dict[Size, int] = {"quick": 32, "long": 1}


def s7(seed: int, size: Size) -> Figure:
    """Every file of a run, a model folder and the cache, and names that other programs unpickle."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["COTRUNK_CACHE"] = str(folder / "cache")
        _write_world(folder)
        attacks = list(_attacks(folder))
        Random(seed).shuffle(attacks)
        attacks = attacks[:: EVERY[size]]
        for place, kind in attacks:
            if problem := _attack(folder, place, kind):
                wrong.append(f"{kind} as {place}: {problem}")
    claim = "bombs under every name never go off: the command refuses, or answers as usual"
    return Figure("S7", claim, len(attacks), len(attacks) - len(wrong), "; ".join(wrong[:3]))


def _write_world(folder: Path) -> None:
    """A run, a model folder, a run with a frozen encoder, and a copy of it all."""
    (folder / "rows.csv").write_text(ROWS)
    (folder / "tiny.toml").write_text(CONFIG.format(weights="random:tiny", freeze=""))
    (folder / "model.toml").write_text(
        CONFIG.format(weights="./model", freeze=', freeze = "encoder"')
    )
    _write_model(folder / "model")
    for name, run in (("tiny", "run"), ("model", "frozen")):
        said = call("train", folder / f"{name}.toml", "--out", folder / run)
        if said.code:
            raise RuntimeError(f"an undisturbed command fails: {said.err}{said.trace}")
    for top in ("run", "model", "cache"):
        shutil.copytree(folder / top, folder / "whole" / top)


def _write_model(folder: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from cotrunk.model.weights.rename import to_hugging_face

    shape, drawn = NAMED["tiny"], torch.Generator().manual_seed(0)
    tensors = {
        name: torch.randn(size, generator=drawn) / 50 for name, size in tensor_sizes(shape).items()
    }
    folder.mkdir()
    save_file(to_hugging_face(tensors, shape), folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config_from_shape(shape)))
    character_tokenizer("bert").save(str(folder / "tokenizer.json"))


def _attacks(folder: Path) -> Iterator[tuple[Path, str]]:
    whole = folder / "whole"
    files = [path for path in sorted(whole.rglob("*")) if path.is_file()]
    folders = sorted({path.parent for path in files})
    for path in [*files, *(place / name for place in folders for name in OTHER_NAMES)]:
        for kind in BOMBS:
            yield path.relative_to(whole), kind


def _attack(folder: Path, place: Path, kind: str) -> str | None:
    """What went wrong; None if the bomb did no harm."""
    sentinel, top = folder / "sentinel", place.parts[0]
    (folder / place).write_bytes(BOMBS[kind](sentinel))
    try:
        for said, is_usual in _commands(folder, top):
            if sentinel.exists():
                return "the bomb went off"
            if not said.is_clean:
                return said.trace or said.err
            if not (said.code or is_usual):
                return "it changed the result"
    finally:
        for used in (top, "cache"):
            shutil.rmtree(folder / used)
            shutil.copytree(folder / "whole" / used, folder / used)
        shutil.rmtree(folder / "again", ignore_errors=True)
        shutil.rmtree(sentinel, ignore_errors=True)
    return None


def _commands(folder: Path, top: str) -> Iterator[tuple[Said, bool]]:
    """Commands that read what was attacked, and whether they ended as without the attack."""
    if top in ("run", "cache"):
        said = call("evaluate", folder / "run", "--json")
        yield said, "accuracy" in said.out
    if top == "run":
        yield call("info", folder / "run"), True
        config = folder / "tiny.toml"
        said = call("train", config, "--out", folder / "run", "--resume")
        yield said, said.code != 0 or _weights(folder / "run") == _weights(folder / "whole/run")
    if top in ("model", "cache"):
        said = call("train", folder / "model.toml", "--out", folder / "again")
        yield said, said.code != 0 or _weights(folder / "again") == _weights(folder / "frozen")


def _weights(run: Path) -> bytes:
    return (run / "final/model.safetensors").read_bytes()


class Bomb:
    """Unpickled, it makes a folder."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self.sentinel),)


def _pickled(sentinel: Path) -> bytes:
    return pickle.dumps(Bomb(sentinel), protocol=2)


def _zipped(sentinel: Path) -> bytes:
    """As ``torch.save`` writes it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", _pickled(sentinel))
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def _array(sentinel: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(sentinel)], object), allow_pickle=True)
    return buffer.getvalue()


def _yaml(sentinel: Path) -> bytes:
    return f'!!python/object/apply:os.mkdir ["{sentinel}"]\n'.encode()


def _custom_code(sentinel: Path) -> bytes:
    """A config that names code; as ``modeling.py`` it would be that code."""
    code = {"auto_map": {"AutoModel": "modeling.Bomb"}, "_component_": f"os.mkdir:{sentinel}"}
    return json.dumps(config_from_shape(NAMED["tiny"]) | code).encode()


BOMBS: dict[str, Callable[[Path], bytes]] = {
    "a pickle": _pickled,
    "a zipped pickle": _zipped,
    "a pickled array": _array,
    "a YAML tag": _yaml,
    "custom code": _custom_code,
}
