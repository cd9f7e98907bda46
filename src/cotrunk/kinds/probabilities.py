"""From logits to probabilities and back, on numpy arrays."""

from __future__ import annotations

from cotrunk import late_numpy as np


def softmax(output: np.ndarray) -> np.ndarray:
    """In float64, without torch."""
    from scipy import special

    return special.softmax(output.astype(np.float64), axis=-1)


def sigmoid(output: np.ndarray) -> np.ndarray:
    """In float64, without torch."""
    from scipy import special

    return special.expit(output.astype(np.float64))


def logit(probability: np.ndarray) -> np.ndarray:
    from scipy import special

    return np.asarray(special.logit(probability))


def torch_softmax(output: np.ndarray) -> np.ndarray:
    """torch's softmax, in the precision of the outputs."""
    import torch

    return torch.from_numpy(output).softmax(-1).numpy()


def torch_sigmoid(output: np.ndarray) -> np.ndarray:
    """torch's sigmoid, in the precision of the outputs."""
    import torch

    return torch.from_numpy(output).sigmoid().numpy()
