"""Masked words as a kind: masking of loaded rows, evidence, score."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from cotrunk.kinds.masking import make_vocabulary
from cotrunk.kinds.metrics import overall
from cotrunk.kinds.mlm import MaskedWords
from cotrunk.kinds.rows import LoadedRows

SPECIAL = ["[PAD]", "[UNK]", "[MASK]"]
TOKENS = {token: n for n, token in enumerate(SPECIAL + [f"w{n}" for n in range(20)])}


def vocabulary(mask="[MASK]"):
    return make_vocabulary(TOKENS, special=SPECIAL, mask=mask, size=25, inside="##")


def bound(**options):
    return MaskedWords(**options).bound(vocabulary())


def loaded(pieces):
    pieces = [tuple(np.array(text, np.int64) for text in row) for row in pieces]
    tokens = np.array([sum(map(len, row)) + 2 for row in pieces], np.int64)
    return LoadedRows("mlm", np.arange(len(pieces)), pieces, tokens, [np.zeros(0)] * len(pieces))


ROWS = st.integers(1, 2).flatmap(
    lambda texts: st.lists(
        st.tuples(*[st.lists(st.integers(0, 22), max_size=12)] * texts), max_size=6
    )
)


@pytest.mark.slow
@given(pieces=ROWS, whole_words=st.booleans(), rate=st.floats(0.05, 0.9))
def test_sites_are_places_in_the_rows_texts_laid_end_to_end(pieces, whole_words, rate):
    rows, kind = loaded(pieces), bound(whole_words=whole_words, rate=rate)
    found = kind.prepared(rows, np.random.default_rng(0))
    assert np.array_equal(found.tokens_R, rows.tokens_R)
    for before, after, site, target in zip(
        rows.pieces, found.pieces, found.sites, found.targets, strict=True
    ):
        assert list(map(len, before)) == list(map(len, after))
        old, new = np.concatenate(before), np.concatenate(after)
        assert np.array_equal(old[site], target)
        others = np.delete(np.arange(len(old)), site)
        assert np.array_equal(old[others], new[others])


def test_rows_of_the_corpus_are_not_changed():
    rows = loaded([([5, 6, 7],), ([8],)])
    bound(rate=0.9).prepared(rows, np.random.default_rng(0))
    assert [text.tolist() for (text,) in rows.pieces] == [[5, 6, 7], [8]]


def test_a_batch_is_masked_by_its_generator_alone():
    rows = loaded([(list(range(3, 23)),)] * 4)
    one, again, other = (
        bound().prepared(rows, np.random.default_rng(seed)).sites for seed in (1, 1, 2)
    )
    assert all(map(np.array_equal, one, again))
    assert not all(map(np.array_equal, one, other))


def test_evidence_is_the_loss_the_hit_the_predicted_and_the_original_word():
    logit_NV, target_N = torch.randn(50, 25), torch.randint(25, (50,)).float()
    logit_NV[:20, target_N[:20].long()] += 3
    loss, hit, predicted, original = bound().evidence(logit_NV, target_N).T
    torch.testing.assert_close(loss, F.cross_entropy(logit_NV, target_N.long(), reduction="none"))
    assert torch.equal(predicted, logit_NV.argmax(1).float())
    assert torch.equal(hit, (predicted == target_N).float())
    assert torch.equal(original, target_N)


def test_the_score_is_masked_accuracy_with_wilsons_interval_beside_loss_and_perplexity():
    sites = [[0.5, 1, 7, 7], [1.5, 0, 3, 4], [2.5, 1, 3, 3], [0.5, 1, 9, 9]]
    evidence = np.array(sites, np.float32)
    score = bound().scores(evidence, np.zeros(0))
    wilson = binomtest(3, 4).proportion_ci(method="wilson")
    assert (score.metric, score.score, score.rows) == ("accuracy", 0.75, 4)
    assert (score.low, score.high) == pytest.approx((wilson.low, wilson.high))
    assert score.more == pytest.approx({"accuracy": 0.75, "loss": 1.25, "perplexity": np.exp(1.25)})
    assert bound().predict_labels(evidence).tolist() == [7, 3, 3, 9]


def test_its_constant_answer_is_the_token_that_was_masked_most_often():
    sites = [[0.5, 1, 7, 7], [1.5, 0, 3, 7], [2.5, 1, 3, 3], [0.5, 1, 9, 9], [np.nan] * 4]
    score = bound().scores(np.array(sites, np.float32), np.zeros(0))
    assert (score.baseline, score.masked_tokens) == (0.5, 4)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_gives_no_score(broken):
    evidence = np.array([[broken, 0, 7, 5], [1.5, 1, 3, 3]], np.float32)
    assert np.isnan(bound().scores(evidence, np.zeros(0)).score)
    assert np.isnan(bound().predict_labels(evidence)).tolist() == [True, False]


def test_sites_that_were_cut_off_do_not_count():
    evidence = np.array([[0.5, 1, 7, 7], [1.5, 0, 3, 5]], np.float32)
    longer = np.concatenate([evidence, np.full((3, 4), np.nan, np.float32)])
    assert bound().scores(longer, np.zeros(0)) == bound().scores(evidence, np.zeros(0))


def test_no_site_at_all_gives_no_score():
    assert np.isnan(bound().scores(np.zeros((0, 4), np.float32), np.zeros(0)).score)


def test_it_is_not_part_of_the_overall_score():
    score = bound().scores(np.array([[0.5, 1, 7, 7]], np.float32), np.zeros(0))
    assert np.isnan(overall({"mlm": score})["official"])


def test_errors_are_the_mean_losses_of_rows():
    evidence = np.array([[1.0, 1, 7, 7], [3.0, 0, 3, 4], [5.0, 0, 3, 5]], np.float32)
    found = bound().errors(evidence, np.zeros(0), counts=np.array([2, 0, 1]))
    np.testing.assert_array_equal(found, [2, np.nan, 5])


def test_the_loss_is_cross_entropy_of_each_site():
    logit_NV, target_N = torch.randn(8, 25), torch.randint(25, (8,)).float()
    expected = F.cross_entropy(logit_NV, target_N.long(), reduction="none", label_smoothing=0.1)
    torch.testing.assert_close(bound().loss(smoothing=0.1)(logit_NV, target_N), expected)


def test_binding_keeps_the_options_and_no_option_makes_a_cached_corpus_stale():
    kind = MaskedWords(rate=0.3, whole_words=True)
    made = kind.bound(vocabulary())
    assert (made.rate, made.whole_words, made.first_only) == (0.3, True, False)
    assert made.outputs == 25
    assert made.reading_key() == kind.reading_key() == MaskedWords().reading_key()


def test_a_tokenizer_without_a_mask_token_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r'kind = "mlm" needs a mask token .* has none') as caught:
        MaskedWords().bound(vocabulary(mask=None))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_that_is_not_a_share_is_refused(rate):
    with pytest.raises(ValueError, match=r"rate = .* must be between 0 and 1"):
        MaskedWords(rate=rate)


def test_only_the_first_text_of_a_pair_is_read_on_request():
    assert [MaskedWords(first_only=first).texts_read(2) for first in (False, True)] == [2, 1]


def test_importing_the_kind_imports_no_torch():
    code = "import sys, cotrunk.kinds.mlm; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
