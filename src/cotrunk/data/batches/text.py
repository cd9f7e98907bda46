"""From the token ids of a row's texts to the sequences an encoder reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from cotrunk.data.batches.packing import Packed, RowIndex, pack
from cotrunk.kinds.rows import LoadedRows, TokenIds


@dataclass(frozen=True)
class PairFormat:
    """How the texts of a row become sequences; tasks with equal formats can share a forward."""

    texts: int
    joined: bool = True
    segments: bool = True
    swapped: bool = False
    max_tokens: int = 128


@dataclass(frozen=True)
class Template:
    """The special tokens around texts: ``begin a end`` or ``begin a between b end``."""

    begin: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    segment_of_second: int

    @property
    def pair_specials(self) -> int:
        return len(self.begin) + len(self.between) + len(self.end)


def template_of(tokenizer: Tokenizer, *, segments: int = 2) -> Template:
    """The special tokens that the tokenizer puts around empty texts.

    ``segments``: how many segment ids the encoder has; some tokenizers use more.
    """
    single = tokenizer.encode("", add_special_tokens=True).ids
    pair = tokenizer.encode("", "", add_special_tokens=True)
    begin, end = tuple(single[:1]), tuple(single[1:])
    between = tuple(pair.ids[len(begin) : len(pair.ids) - len(end)])
    second = pair.type_ids[-1]
    return Template(begin, between, end, segment_of_second=second if second < segments else 0)


def keep_of_pair(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text to keep: the longer one is truncated first."""
    if first + second <= room:
        return first, second
    short = min(first, second, room // 2)
    return (short, room - short) if first <= second else (room - short, short)


def join(
    template: Template, pieces: TokenIds, pair_format: PairFormat
) -> tuple[np.ndarray, np.ndarray]:
    """A row's texts in one sequence: token ids and segment ids."""
    t, room = template, pair_format.max_tokens
    if len(pieces) == 1:
        kept = pieces[0][: room - len(t.begin) - len(t.end)]
        ids = np.concatenate([t.begin, kept, t.end])
        return ids, np.zeros(len(ids), np.int64)
    first, second = keep_of_pair(len(pieces[0]), len(pieces[1]), room - t.pair_specials)
    ids = np.concatenate([t.begin, pieces[0][:first], t.between, pieces[1][:second], t.end])
    segments = np.zeros(len(ids), np.int64)
    if pair_format.segments:
        segments[len(t.begin) + first + len(t.between) :] = t.segment_of_second
    return ids, segments


def site_positions(
    template: Template, pieces: TokenIds, sites: np.ndarray, pair_format: PairFormat
) -> np.ndarray:
    """The positions of a row's sites in its sequence; -1 for truncated ones."""
    t, room = template, pair_format.max_tokens
    if len(pieces) == 1:
        kept = min(len(pieces[0]), room - len(t.begin) - len(t.end))
        return np.where((sites >= 0) & (sites < kept), sites + len(t.begin), -1)
    first, second = keep_of_pair(len(pieces[0]), len(pieces[1]), room - t.pair_specials)
    in_second = sites - len(pieces[0])
    after = len(t.begin) + first + len(t.between)
    found = np.where((sites >= 0) & (sites < first), sites + len(t.begin), -1)
    return np.where((in_second >= 0) & (in_second < second), in_second + after, found)


def visible_sites(
    template: Template, rows: LoadedRows, pair_format: PairFormat
) -> list[np.ndarray]:
    """For each row, which of its sites remain when its texts are truncated."""
    assert rows.sites is not None
    return [
        site_positions(template, pieces, sites, pair_format) >= 0
        for pieces, sites in zip(rows.pieces, rows.sites, strict=True)
    ]


def pack_rows(
    template: Template,
    rows: Sequence[TokenIds],
    pair_format: PairFormat,
    sites: Sequence[np.ndarray] | None = None,
) -> tuple[Packed, RowIndex]:
    """Rows as one packed batch, with the places of each row's sequences and sites in it.

    No site may be truncated.
    """
    if pair_format.texts == 1:
        versions = [rows]
    elif not pair_format.joined:
        versions = [[(row[0],) for row in rows], [(row[1],) for row in rows]]
    elif pair_format.swapped:
        versions = [rows, [(row[1], row[0]) for row in rows]]
    else:
        versions = [rows]
    sequences = [join(template, pieces, pair_format) for version in versions for pieces in version]
    packed = pack([ids for ids, _ in sequences], [segments for _, segments in sequences])
    places = tuple(packed.place_S.split(len(rows)))
    swapped = pair_format.texts == 2 and pair_format.joined and pair_format.swapped
    if sites is None:
        return packed, RowIndex(places, swapped)
    assert len(places) == 1, "tasks about tokens have one sequence per row"
    first_R = packed.first_S[places[0]].tolist()
    positions = [
        first + site_positions(template, pieces, site, pair_format)
        for first, pieces, site in zip(first_R, rows, sites, strict=True)
    ]
    count_R = torch.tensor([len(site) for site in sites])
    return packed, RowIndex(places, swapped, torch.from_numpy(np.concatenate(positions)), count_R)


def tokens_of(template: Template, lengths: Sequence[int], pair_format: PairFormat) -> int:
    """The cost of a row in tokens, given the lengths of its texts."""
    if len(lengths) == 1 or not pair_format.joined:
        specials = len(template.begin) + len(template.end)
        return sum(min(length + specials, pair_format.max_tokens) for length in lengths)
    whole = min(sum(lengths) + template.pair_specials, pair_format.max_tokens)
    return 2 * whole if pair_format.swapped else whole
