"""From token states to the inputs of the heads. Shapes: T tokens, S sequences, N sites."""

from collections.abc import Mapping

import torch
from torch import Tensor

from cotrunk.data.batches.packing import Packed, RowIndex
from cotrunk.model.head_plan import HeadPlan, Pooling
from cotrunk.model.sharing.owned import States


def pool_tokens(how: Pooling, x_TD: Tensor, text: Packed) -> Tensor:
    """Mean, sum or maximum over the tokens of each sequence, or the tokens unchanged."""
    if how == "tokens":
        return x_TD
    length_S = text.length_S
    if x_TD.device.type == "mps":  # no segment_reduce there
        sequence_T = torch.repeat_interleave(length_S)
        total_SD = x_TD.new_zeros(len(length_S), x_TD.shape[1])
        if how == "max":
            index_TD = sequence_T[:, None].expand_as(x_TD)
            return total_SD.scatter_reduce(0, index_TD, x_TD, "amax", include_self=False)
        total_SD = total_SD.index_add(0, sequence_T, x_TD)
    elif how == "max":
        return torch.segment_reduce(x_TD, "max", lengths=length_S, axis=0)
    else:
        total_SD = torch.segment_reduce(x_TD, "sum", lengths=length_S, axis=0)
    return total_SD / length_S[:, None] if how == "mean" else total_SD


def at_sites(pooled: States, index: RowIndex, heads: Mapping[str, HeadPlan]) -> States:
    """Token states reduced to the sites to predict; pooled states are unchanged."""
    if index.site_N is None:
        return pooled
    site_N = index.site_N
    return {
        tasks: x.index_select(0, site_N) if _keeps_tokens(heads[min(tasks)]) else x
        for tasks, x in pooled.items()
    }


def vectors_of(x: Tensor, places: tuple[Tensor, ...], head: HeadPlan) -> list[Tensor]:
    """A head's inputs: one vector per text of every row, or per site."""
    if _keeps_tokens(head):
        return [x]
    return [x.index_select(0, place) for place in places]


def _keeps_tokens(head: HeadPlan) -> bool:
    return head.pooling == "tokens"
