"""How a score varies over the dev rows, without the rows.

A test between runs needs the errors that the choice of dev rows causes in their scores, and how
far runs share them. The multiplier bootstrap (van der Vaart and Wellner 1996, section 2.9)
estimates both from sums of the rows' influences with random signs. All runs on the same dev rows
have the same signs, so their replicates vary together as their scores do. A replicate says nothing
about any row.

Shapes: K replicates, N rows.
"""

import base64
import math

import numpy as np

from cotrunk.kinds.influence import OverRows

REPLICATES = 1000
"""The standard error that they estimate is off by 1 / sqrt(2 K): 2 %."""
STORED = np.dtype("<f2")


def replicates_of(score: OverRows, dev: str) -> str:
    """``dev``: the digest of the dev rows. Base64 of K errors of the score, as 16-bit floats.

    No slash is in it, so it is never taken for a path.
    """
    scale = math.sqrt(max(1, score.rows * (score.rows - 1)))
    found_K = _signs_KN(dev, score.rows) @ score.influence.astype(np.float32) / scale
    return base64.urlsafe_b64encode(found_K.astype(STORED).tobytes()).decode()


def influence_of(replicates: str) -> np.ndarray:
    """K influences that cause the same errors as those of the rows."""
    found_K = np.frombuffer(base64.urlsafe_b64decode(replicates), STORED).astype(np.float64)
    return found_K * math.sqrt(len(found_K) - 1)


def _signs_KN(dev: str, rows: int) -> np.ndarray:
    """The raw stream of PCG64 is the same in every version of numpy."""
    count = REPLICATES * rows
    words = np.random.PCG64(int(dev[:16], 16)).random_raw(-(-count // 64))
    bits = np.unpackbits(words.astype("<u8").view(np.uint8), count=count)
    return bits.reshape(REPLICATES, rows).astype(np.float32) * 2 - 1
