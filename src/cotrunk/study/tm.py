"""The overall score relative to training time and memory (MOPS, figure 3)."""


def tm_printed(
    score: float, *, seconds: float, memory: float, base_seconds: float, base_memory: float
) -> float:
    """As MOPS prints it: not divided by the baseline's score, so the baseline has its own score."""
    return score * (base_seconds / seconds) * (base_memory / memory)


def tm_defined(
    score: float,
    *,
    seconds: float,
    memory: float,
    base_score: float,
    base_seconds: float,
    base_memory: float,
) -> float:
    """As MOPS defines it: the baseline has 1."""
    printed = tm_printed(
        score, seconds=seconds, memory=memory, base_seconds=base_seconds, base_memory=base_memory
    )
    return printed / base_score


def memory_bytes(weights: int, trained: int) -> int:
    """What training keeps: a float32 for each weight, and AdamW's two for each trained one."""
    return 4 * weights + 8 * trained
