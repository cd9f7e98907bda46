"""Memory of a process that answers requests for weeks."""

import ctypes
import gc
from contextlib import suppress

M_MMAP_THRESHOLD = -3
"""As in glibc's malloc.h."""
LARGE = 1 << 18


def freeze_loaded_objects() -> None:
    """Freeze loaded objects: a full collection would pause all threads for up to a second."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def return_large_blocks() -> None:
    """Have freed blocks above 256 KB go back to the system at once; only glibc can.

    The tensors of a batch are such blocks, and their sizes change from batch to batch. Kept for
    reuse, they would fragment the heap, which then grows under load.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)
