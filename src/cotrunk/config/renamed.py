"""Settings that had other names in earlier versions."""

RENAMED = {
    "train.balance": "train.loss_weighting",
    "train.balance_options": "train.loss_weighting_options",
    "train.smooth": "train.regularize",
    "train.smooth_options": "train.regularize_options",
}


def new_name(key: str, *, inside: str = "") -> str | None:
    """The new name of a renamed key, else None; ``inside`` is the table of the key.

    Stages take the keys of [train]: there ``balance`` means ``train.balance``.
    """
    renamed = RENAMED.get(f"{inside}{key}")
    return renamed.removeprefix(inside) if renamed else None
