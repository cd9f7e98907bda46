"""From a file to batches: the token cache, the sequences an encoder reads, the stream of a run."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from cotrunk.data.batches.samplers import SAMPLERS, Sampler
from cotrunk.data.batches.stream import Batch, Stream
from cotrunk.data.batches.text import PairFormat, join, pack_rows, template_of, tokens_of
from cotrunk.data.reading.examples import Source
from cotrunk.data.tokens import digests
from cotrunk.data.tokens.cache import Corpus, load_corpus
from cotrunk.data.tokens.store import cache_folder
from cotrunk.errors import UserError
from cotrunk.kinds.binary import Binary
from cotrunk.kinds.classes import Classes
from cotrunk.kinds.score import Scores
from cotrunk.kinds.task import Task
from cotrunk.model.weights.tokenizer import character_tokenizer
from toy import write_rows

FAMILIES = ("bert", "roberta", "distilbert")
MOOD = Task("mood", 1, Classes(("0", "1", "2")))


def pieces_of(tokenizer: Tokenizer, *texts: str) -> tuple[np.ndarray, ...]:
    encoded = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return tuple(np.array(ids, np.int64) for ids in encoded)


@pytest.fixture
def moods(tmp_path) -> Source:
    rows = [[f"row {i}", f"good plot {i}", i % 3] for i in range(20)]
    write_rows(tmp_path / "mood.csv", ["id", "sentence", "mood"], rows)
    return Source(tmp_path / "mood.csv", ("sentence",), "mood")


def load(source: Source, task: Task = MOOD) -> tuple[Corpus, int]:
    """The corpus, and how many rows had to be tokenised for it."""
    rows: list[int] = []
    corpus = load_corpus(
        task,
        source,
        character_tokenizer("bert"),
        on_progress=lambda done: rows.append(done.rows),
    )
    return corpus, sum(rows)


ARRAYS = ("token", "offset", "target", "id_byte", "id_offset", "line")


def assert_equal(one: Corpus, other: Corpus) -> None:
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.digest, one.key) == (other.digest, other.key)


def test_a_corpus_holds_what_the_file_says(moods):
    corpus, rows = load(moods)
    assert rows == len(corpus) == 20
    assert [corpus.id(row) for row in range(20)] == [f"row {i}" for i in range(20)]
    assert corpus.target.tolist() == [i % 3 for i in range(20)]
    assert corpus.line.tolist() == list(range(2, 22))
    tokenizer = character_tokenizer("bert")
    for row in range(20):
        [expected] = pieces_of(tokenizer, f"good plot {row}")
        np.testing.assert_array_equal(corpus.pieces(row)[0], expected)
    lengths = [[len(corpus.pieces(row)[0])] for row in range(20)]
    assert corpus.text_lengths(0, 20).tolist() == lengths


def test_the_second_time_nothing_is_tokenised(moods):
    first, rows = load(moods)
    second, again = load(moods)
    assert (rows, again) == (20, 0)
    assert_equal(first, second)


def test_a_copy_of_the_file_is_known_by_its_content(moods, tmp_path):
    first, _ = load(moods)
    shutil.copy(moods.path, tmp_path / "copy.csv")
    second, again = load(Source(tmp_path / "copy.csv", ("sentence",), "mood"))
    assert again == 0
    assert_equal(first, second)


def test_changed_content_is_read_again(moods):
    first, _ = load(moods)
    moods.path.write_text(moods.path.read_text().replace("good", "fine"))
    second, again = load(moods)
    assert again == 20
    assert first.digest != second.digest
    assert not np.array_equal(first.token, second.token)


def test_another_task_column_or_tokenizer_is_another_corpus(moods):
    first, _ = load(moods)
    by_score, rows = load(moods, Task("mood", 1, Scores(range=(0.0, 2.0))))
    assert rows == 20
    by_id, rows = load(Source(moods.path, ("id",), "mood"))
    assert rows == 20
    by_other = load_corpus(MOOD, moods, character_tokenizer("roberta"))
    assert len({corpus.key for corpus in (first, by_score, by_id, by_other)}) == 4


def cached() -> Path:
    [folder] = (cache_folder() / "tokens").iterdir()
    return folder


@pytest.mark.parametrize("name", ["about.json", *ARRAYS[1:], "token16"])
def test_a_folder_that_lacks_a_file_is_made_again(moods, name):
    first, _ = load(moods)
    kept = {array: np.array(getattr(first, array)) for array in ARRAYS}
    (cached() / name).unlink()
    second, again = load(moods)
    assert again == 20
    for array, values in kept.items():
        np.testing.assert_array_equal(getattr(second, array), values)


@pytest.mark.parametrize("name", ["about.json", "sums.json", *ARRAYS[1:], "token16"])
def test_a_folder_with_one_wrong_bit_is_made_again(moods, name):
    first, _ = load(moods)
    kept = {array: np.array(getattr(first, array)) for array in ARRAYS}
    content = bytearray((cached() / name).read_bytes())
    content[len(content) // 2] ^= 8
    (cached() / name).write_bytes(content)
    second, again = load(moods)
    assert again == 20
    for array, values in kept.items():
        np.testing.assert_array_equal(getattr(second, array), values)


@pytest.mark.parametrize("name", ["about.json", *ARRAYS[1:], "token16"])
def test_a_folder_with_a_file_that_is_cut_short_is_made_again(moods, name):
    first, _ = load(moods)
    labels = first.target.tolist()
    content = (cached() / name).read_bytes()
    (cached() / name).write_bytes(content[: len(content) // 2])
    second, again = load(moods)
    assert again == 20
    assert second.target.tolist() == labels


def test_a_file_that_cannot_be_read_leaves_nothing_in_the_cache(moods):
    moods.path.write_text("id,sentence,mood\n1,good,7\n")
    for _ in range(2):
        with pytest.raises(UserError, match=r"mood.csv:2:3 \(mood\): a class must be one of 0..2"):
            load(moods)
    assert not list((cache_folder() / "tokens").iterdir())


def test_a_file_that_has_just_changed_is_read_again_and_not_noted(moods):
    load(moods)
    assert not (cache_folder() / "digests").exists()


def test_a_damaged_note_of_a_digest_is_written_again(moods, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED_AFTER", -1)  # the file is as good as old
    first, _ = load(moods)
    [note] = (cache_folder() / "digests").iterdir()
    noted = note.read_text()
    for damage in ("", "[]", "[1]", noted.replace(first.digest, "0" * 64), noted.replace("]", "")):
        note.write_text(damage)
        second, again = load(moods)
        assert again == 0
        assert first.digest == second.digest


def test_dropped_and_unlabelled_rows_are_remembered_by_the_cache(moods):
    moods.path.write_text("id,sentence,mood\n1,good,0\n2,,1\n3,bad,\n")
    source = Source(moods.path, ("sentence",), "mood", sparse_labels=True, skip_bad_rows=True)
    for _ in range(2):
        corpus, _ = load(source)
        assert (len(corpus), corpus.dropped_count, corpus.unlabelled) == (1, 1, 1)
        assert "mood.csv:3:2 (sentence): the text is empty" in corpus.dropped[0]


words = st.text("abc ,.", max_size=12)


@pytest.mark.parametrize("family", FAMILIES)
@given(text=words)
@settings(max_examples=50, deadline=None)
def test_one_text_is_framed_as_the_tokenizer_frames_it(family, text):
    tokenizer = character_tokenizer(family)
    expected = tokenizer.encode(text)
    ids, segments = join(template_of(tokenizer), pieces_of(tokenizer, text), PairFormat(texts=1))
    assert ids.tolist() == expected.ids
    assert segments.tolist() == expected.type_ids


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@given(first=words, second=words, room=st.integers(4, 30))
@settings(max_examples=150, deadline=None)
def test_a_pair_is_framed_and_cut_as_the_tokenizer_does(family, first, second, room):
    tokenizer = character_tokenizer(family)
    template, pieces = template_of(tokenizer), pieces_of(tokenizer, first, second)
    tokenizer.enable_truncation(room, strategy="longest_first")
    expected = tokenizer.encode(first, second)
    ids, segments = join(template, pieces, PairFormat(texts=2, max_tokens=room))
    assert ids.tolist() == expected.ids
    assert segments.tolist() == expected.type_ids


@pytest.mark.parametrize("family", FAMILIES)
@given(text=words, room=st.integers(4, 12))
@settings(max_examples=50, deadline=None)
def test_one_text_is_cut_as_the_tokenizer_does(family, text, room):
    tokenizer = character_tokenizer(family)
    template, pieces = template_of(tokenizer), pieces_of(tokenizer, text)
    tokenizer.enable_truncation(room)
    ids, _ = join(template, pieces, PairFormat(texts=1, max_tokens=room))
    assert ids.tolist() == tokenizer.encode(text).ids


def test_segments_can_be_left_out():
    tokenizer = character_tokenizer("bert")
    pieces = pieces_of(tokenizer, "a b", "c")
    _, with_segments = join(template_of(tokenizer), pieces, PairFormat(texts=2))
    _, of_one = join(template_of(tokenizer, segments=1), pieces, PairFormat(texts=2))
    assert not of_one.any()  # an encoder that knows no second segment cannot look it up
    _, without = join(template_of(tokenizer), pieces, PairFormat(texts=2, segments=False))
    assert with_segments.tolist() == [0, 0, 0, 0, 1, 1]
    assert without.tolist() == [0] * 6


@pytest.mark.parametrize(
    ("pair_format", "sequences"),
    [
        (PairFormat(texts=2), ["ab|c", "d|ef"]),
        (PairFormat(texts=2, joined=False), ["ab", "d", "c", "ef"]),
        (PairFormat(texts=2, swapped=True), ["ab|c", "d|ef", "c|ab", "ef|d"]),
    ],
    ids=["joined", "apart", "swapped"],
)
def test_rows_find_their_sequences_in_the_packed_batch(pair_format, sequences):
    tokenizer = character_tokenizer("bert")
    template = template_of(tokenizer)
    rows = [pieces_of(tokenizer, "ab", "c"), pieces_of(tokenizer, "d", "ef")]
    packed, index = pack_rows(template, rows, pair_format)
    starts = np.concatenate([[0], np.cumsum(packed.length_S.numpy())])
    places = [place for side in index.places for place in side.tolist()]
    found = [packed.token_T[starts[p] : starts[p + 1]].tolist() for p in places]
    expected = [tokenizer.encode(*sequence.split("|")).ids for sequence in sequences]
    assert found == expected
    budget = sum(tokens_of(template, [len(piece) for piece in row], pair_format) for row in rows)
    assert budget == len(packed.token_T)


def corpus_of(tmp_path: Path, task: str, rows: int) -> Corpus:
    path = tmp_path / f"{task}-{rows}.csv"
    write_rows(path, ["text", "label"], [[f"{task} {i}", i % 2] for i in range(rows)])
    one = Task(task, 1, Binary())
    return load_corpus(one, Source(path, ("text",), "label"), character_tokenizer("bert"))


@pytest.fixture
def corpora(tmp_path) -> dict[str, Corpus]:
    sizes = {"a": 23, "b": 10, "c": 7}
    return {task: corpus_of(tmp_path, task, rows) for task, rows in sizes.items()}


def stream(
    corpora: dict[str, Corpus], sampler: str = "together", *, seed: int = 5, accumulate: int = 1
) -> Stream:
    return Stream(corpora, Sampler(sampler), dict.fromkeys(corpora, 4), seed, 3, accumulate)


def spelled(batches: list[Batch]) -> list[tuple[object, ...]]:
    return [(b.task, b.rows.tolist(), b.share) for b in batches]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_are_a_function_of_seed_and_step_alone(corpora, sampler):
    forwards, backwards, other = (
        stream(corpora, sampler),
        stream(corpora, sampler),
        stream(corpora, sampler),
    )
    steps = range(forwards.steps)
    one = {step: spelled(list(forwards.batches(step))) for step in steps}
    two = {step: spelled(list(backwards.batches(step))) for step in reversed(steps)}
    assert one == two
    assert spelled(list(other.batches(steps[-1]))) == one[steps[-1]]
    changed = stream(corpora, sampler, seed=6)
    differs = [step for step in steps if spelled(list(changed.batches(step))) != one[step]]
    assert len(differs) > len(steps) // 2


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_row_comes_once_before_any_comes_twice(corpora, sampler):
    chosen = stream(corpora, sampler)
    for epoch in range(3):
        first = chosen.epoch_ends[epoch - 1] if epoch else 0
        seen: dict[str, list[int]] = {task: [] for task in corpora}
        for step in range(first, chosen.epoch_ends[epoch]):
            for batch in chosen.batches(step):
                seen[batch.task] += batch.rows.tolist()
        for task, rows in seen.items():
            counts = Counter(rows)
            size = len(corpora[task])
            assert max(counts.values(), default=0) - min(counts.values(), default=0) <= 1
            assert len(rows) < size or len(counts) == size
            assert sorted(rows[:size]) == sorted(set(rows[:size]))


def test_targets_are_the_labels_of_the_rows(corpora):
    chosen = stream(corpora)
    for batch in chosen.batches(1):
        corpus = corpora[batch.task]
        found = np.concatenate(corpus.targets(batch.rows))
        np.testing.assert_array_equal(found, corpus.target[batch.rows])
        assert [len(target) for target in corpus.targets(batch.rows)] == [1] * len(batch.rows)


def test_epochs_differ_and_every_step_belongs_to_one(corpora):
    chosen = stream(corpora, "largest")
    assert chosen.epoch_ends == [6, 12, 18]
    assert [chosen.epoch_of(step) for step in (0, 5, 6, 17)] == [0, 0, 1, 2]
    assert spelled(list(chosen.batches(0))) != spelled(list(chosen.batches(6)))


@pytest.mark.parametrize("sampler", ["largest", "proportional"])
@pytest.mark.parametrize("accumulate", [2, 4, 5])
def test_accumulation_puts_the_turns_of_several_steps_into_one(corpora, sampler, accumulate):
    plain = stream(corpora, sampler)
    chosen = stream(corpora, sampler, accumulate=accumulate)
    for epoch in range(3):
        single = [spec for step in plain.steps_of(epoch) for spec in step]
        grouped = chosen.steps_of(epoch)
        assert [spec for step in grouped for spec in step] == single
        steps = len(plain.steps_of(epoch))
        assert len(grouped) == -(-steps // accumulate)
    rows = [batch.rows.tolist() for step in range(plain.steps) for batch in plain.batches(step)]
    assert rows == [b.rows.tolist() for step in range(chosen.steps) for b in chosen.batches(step)]
    shares = [batch.share for batch in chosen.batches(0)]
    assert shares == pytest.approx([1 / accumulate] * len(shares))
