"""Dynamic masking: who is chosen, what is put in, what stays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from cotrunk.kinds.masking import make_vocabulary, mask_texts

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [f"w{n}" for n in range(40)] + [f"##p{n}" for n in range(15)]
VOCABULARY = make_vocabulary(
    {token: number for number, token in enumerate(SPECIAL + PIECES)},
    special=SPECIAL,
    mask="[MASK]",
    size=70,
    inside="##",
)
MASK = SPECIAL.index("[MASK]")
TEXTS = st.lists(st.lists(st.integers(0, 59), max_size=30).map(np.array), max_size=8).map(
    lambda texts: [text.astype(np.int64) for text in texts]
)
OPTIONS = st.fixed_dictionaries({"rate": st.floats(0.01, 0.9), "whole_words": st.booleans()})


def masked(texts, seed=0, **options):
    return mask_texts(texts, VOCABULARY, np.random.default_rng(seed), **options)


def plain_texts(count, length, seed=0):
    random = np.random.default_rng(seed)
    return list(random.choice(VOCABULARY.plain, (count, length)))


def words_of(text):
    """The positions of each word's pieces, one token after the other."""
    words = []
    for position, number in enumerate(text):
        if number < len(SPECIAL):
            words.append(None)
        elif VOCABULARY.continues[number] and words and words[-1] is not None:
            words[-1].append(position)
        else:
            words.append([position])
    return [word for word in words if word is not None]


@pytest.mark.slow
@given(texts=TEXTS, options=OPTIONS, seed=st.integers(0, 9))
def test_only_chosen_positions_change_and_targets_are_what_stood_there(texts, options, seed):
    before = [text.copy() for text in texts]
    found = masked(texts, seed, **options)
    assert len(found) == len(texts)
    for text, original, one in zip(texts, before, found, strict=True):
        assert np.array_equal(text, original)
        assert np.array_equal(one.target, original[one.site])
        assert (np.diff(one.site) > 0).all()
        others = np.delete(np.arange(len(text)), one.site)
        assert np.array_equal(one.ids[others], original[others])


@pytest.mark.slow
@given(texts=TEXTS, options=OPTIONS, seed=st.integers(0, 9))
def test_special_tokens_are_neither_chosen_nor_put_in_except_the_mask(texts, options, seed):
    for one in masked(texts, seed, **options):
        assert not VOCABULARY.is_special[one.target].any()
        put_in = one.ids[one.site]
        assert not VOCABULARY.is_special[put_in[put_in != MASK]].any()
        assert (put_in < len(SPECIAL + PIECES)).all()


@pytest.mark.slow
@given(texts=TEXTS, options=OPTIONS, seed=st.integers(0, 9))
def test_every_text_with_a_plain_token_gets_a_site_and_others_none(texts, options, seed):
    for text, one in zip(texts, masked(texts, seed, **options), strict=True):
        assert (len(one.site) > 0) == (not VOCABULARY.is_special[text].all())


@pytest.mark.slow
@given(texts=TEXTS, options=OPTIONS, seed=st.integers(0, 9))
def test_the_same_seed_chooses_the_same(texts, options, seed):
    for one, again in zip(
        masked(texts, seed, **options), masked(texts, seed, **options), strict=True
    ):
        assert np.array_equal(one.ids, again.ids)
        assert np.array_equal(one.site, again.site)


def test_another_seed_chooses_others():
    (one,), (other,) = (masked(plain_texts(1, 100), seed) for seed in (0, 1))
    assert not np.array_equal(one.site, other.site)


@pytest.mark.slow
@given(texts=TEXTS, rate=st.floats(0.01, 0.9), seed=st.integers(0, 9))
@settings(max_examples=200)
def test_whole_words_are_chosen_whole(texts, rate, seed):
    for text, one in zip(texts, masked(texts, seed, rate=rate, whole_words=True), strict=True):
        chosen = set(one.site.tolist())
        for word in words_of(text):
            assert chosen.isdisjoint(word) or chosen.issuperset(word)


@pytest.mark.parametrize("length", [7, 10, 33, 128])
@pytest.mark.parametrize("whole_words", [False, True])
def test_the_share_chosen_is_the_rate(length, whole_words):
    texts = plain_texts(4000, length)
    rate = 0.15 if length > 7 else 0.3  # of 7 words, 0.15 would be fewer than the one that is due
    counts = [len(one.site) for one in masked(texts, rate=rate, whole_words=whole_words)]
    total = sum(counts)
    if whole_words:  # all pieces of a word come together, so the number of tokens varies more
        assert total / (4000 * length) == pytest.approx(rate, rel=0.06)
    else:
        assert binomtest(total, 4000 * length, rate).pvalue > 1e-4
        assert max(counts) - min(counts) <= 1


def test_a_short_text_gets_exactly_one_site():
    assert {len(one.site) for one in masked(plain_texts(500, 3))} == {1}


def test_of_the_chosen_80_percent_are_masked_10_drawn_and_10_kept():
    texts = plain_texts(3000, 60)
    found = masked(texts)
    put_in = np.concatenate([one.ids[one.site] for one in found])
    target = np.concatenate([one.target for one in found])
    is_masked, is_kept = put_in == MASK, put_in == target
    by_chance = 0.1 / len(VOCABULARY.plain)  # a drawn token may be the one that stood there
    assert binomtest(int(is_masked.sum()), len(target), 0.8).pvalue > 1e-4
    assert binomtest(int(is_kept.sum()), len(target), 0.1 + by_chance).pvalue > 1e-4
    drawn = put_in[~is_masked & ~is_kept]
    assert set(drawn.tolist()) == set(VOCABULARY.plain.tolist())


def test_every_position_is_as_likely_as_any_other():
    sites = np.concatenate([one.site for one in masked(plain_texts(8000, 20))])
    counts = np.bincount(sites, minlength=20)
    assert all(binomtest(int(count), len(sites), 1 / 20).pvalue > 1e-4 for count in counts)


def test_a_piece_after_a_special_token_or_at_the_start_begins_a_word():
    inside, unknown = SPECIAL.index("[MASK]") + 1 + 40, SPECIAL.index("[UNK]")
    text = np.array([inside, unknown, inside, inside])
    seen = {
        tuple(masked([text], seed, rate=0.1, whole_words=True)[0].site.tolist())
        for seed in range(40)
    }
    assert seen == {(0,), (2, 3)}


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int64])
def test_ids_keep_their_type(dtype):
    (one,) = masked([np.arange(5, 30, dtype=dtype)])
    assert one.ids.dtype == dtype


def test_rows_of_the_word_table_without_a_token_are_special():
    assert VOCABULARY.is_special[len(SPECIAL + PIECES) :].all()
    assert len(VOCABULARY.plain) == len(PIECES)
