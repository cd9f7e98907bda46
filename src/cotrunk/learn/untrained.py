"""Parameters that no stage trains: a checkpoint records their hash and source, not a copy."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

DOCUMENT = "source"


@dataclass(frozen=True)
class Untrained:
    """Parameters that a run never changes; ``source`` is the setting that names their files."""

    source: str = ""
    names: frozenset[str] = frozenset()
    sha256: str = ""

    def document(self) -> dict[str, object]:
        return {"source": self.source, "sha256": self.sha256, "tensors": sorted(self.names)}

    def remaining(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors that a checkpoint has to hold."""
        return {name: tensor for name, tensor in tensors.items() if name not in self.names}


def untrained(source: str, tensors: Mapping[str, Tensor]) -> Untrained:
    if not tensors:
        return Untrained()
    return Untrained(source, frozenset(tensors), sha256_of(tensors))


def sha256_of(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}\n".encode())
        whole = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(whole.view(torch.uint8).numpy().data)
    return digest.hexdigest()
