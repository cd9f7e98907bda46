"""Dropout as a pure function of a key: the same key drops the same units in every run."""

import numpy as np
import torch
from torch import Tensor

LANES = 2**16


class DropoutStream:
    """A stream of dropout masks. Without a key nothing is dropped (evaluation)."""

    def __init__(self, *key: int, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")
        self.disabled = not key
        if self.disabled:
            return
        seed = np.random.SeedSequence(key)
        if self.device.type == "cpu":
            self.bits = np.random.SFC64(seed)
        else:
            self.generator = torch.Generator(self.device)
            self.generator.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> np.uint64(1)))

    def drop(self, x: Tensor, rate: float) -> Tensor:
        return x if self.disabled or rate == 0 else x * self.mask(x.shape, rate)

    def add(self, x: Tensor, y: Tensor, rate: float) -> Tensor:
        """``x + drop(y)`` in one pass."""
        if self.disabled or rate == 0:
            return x + y
        return torch.addcmul(x, y, self.mask(y.shape, rate))

    def mask(self, shape: torch.Size, rate: float) -> Tensor:
        """0 with probability ``rate``, else 1 / (1 - rate); the rate is rounded to 1 / 65536.

        On the CPU each unit is a 16-bit lane of a fast generator, compared in place.
        """
        if self.device.type != "cpu":
            kept = torch.rand(shape, generator=self.generator, device=self.device) >= rate
            return kept / (1 - rate)
        count = shape.numel()
        lanes = self.bits.random_raw(-(-count // 4)).view(np.int16)[:count]
        threshold = round(rate * LANES)
        kept = torch.from_numpy(lanes).view(shape).ge_(threshold - LANES // 2)
        return kept.to(torch.float32).mul_(LANES / (LANES - threshold))


NO_DROPOUT = DropoutStream()
