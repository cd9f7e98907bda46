"""``cotrunk init`` on numbers: the range of a score, and numbers that are not written plainly."""

import tomllib

import pytest
from shapes import TINY, sentence, write_csv


@pytest.fixture
def tasks_of(cotrunk, tmp_path):
    """The tasks of a config made from a file with a label column, and its text."""

    def make(label, name="numbers.csv", beside=()):
        header = ["text", *(column for column, _ in beside), "grade"]
        rows = [[f"{sentence()} {n}", *(of(n) for _, of in beside), label(n)] for n in range(60)]
        file = write_csv(tmp_path / name, header, rows)
        said = cotrunk("init", file, "-o", tmp_path / "run.toml")
        assert said.code == 0, said.err
        text = (tmp_path / "run.toml").read_text()
        return tomllib.loads(text)["tasks"], text

    return make


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [
        (0.5, 98.25, [0, 100]),
        (0.02, 0.97, [0, 1]),
        (-0.9, 0.95, [-1, 1]),
        (0.2, 4.8, [0, 5]),
        (1.25, 4.75, [1, 5]),
        (1.5, 6.75, [1, 7]),
        (1.25, 9.5, [1, 10]),
    ],
)
def test_numbers_that_nearly_fill_a_usual_scale_have_its_range(tasks_of, low, high, scale):
    tasks, _ = tasks_of(lambda n: round(low + (high - low) * n / 59, 4))
    assert tasks["grade"]["range"] == scale


@pytest.mark.parametrize(("low", "high"), [(6.83, 1647.78), (-0.5, 4.5), (20.5, 60.5), (0.1, 0.3)])
def test_other_numbers_have_no_range_and_the_config_says_so(tasks_of, low, high):
    tasks, text = tasks_of(lambda n: round(low + (high - low) * n / 59, 4))
    assert "range" not in tasks["grade"]
    assert f"# grade: numbers from {low:g} to {high:g} in 60 rows" in text
    assert "# no range: any number is allowed" in text


@pytest.mark.slow
def test_labels_beyond_those_of_training_are_scored_and_those_beyond_the_scale_refused(
    cotrunk, tasks_of, tmp_path
):
    places = {"price": lambda n: 6.83 + 27.5 * n}
    tasks_of(lambda n: round(n / 59 * 98, 1), beside=places.items())
    said = cotrunk("train", tmp_path / "run.toml", "--out", "out", *TINY)
    assert said.code == 0, said.err
    header = ["text", "price", "grade"]
    fits = write_csv(tmp_path / "more.csv", header, [[sentence(), n * 999, n] for n in (1, 99, 50)])
    assert cotrunk("evaluate", "out", fits).code == 0
    high = write_csv(tmp_path / "high.csv", header, [[sentence(), n, n] for n in (7, 104, 50)])
    said = cotrunk("evaluate", "out", high)
    assert said.code == 2
    (line,) = [line for line in said.err.splitlines() if "must lie in" in line]
    assert "a score must lie in 0..100; found '104'; correct the cell" in line
    assert "(the limits are tasks.grade.range in the run's config) or give --skip-bad-rows" in line


@pytest.mark.slow
def test_pairs_of_a_score_without_a_range_train(cotrunk, tmp_path):
    rows = [[sentence(), sentence(), 6.83 + 27.5 * n] for n in range(60)]
    file = write_csv(tmp_path / "pairs.csv", ["a", "b", "close"], rows)
    assert cotrunk("init", file, "-o", "run.toml").code == 0
    assert "cosine" not in (tmp_path / "run.toml").read_text()
    assert cotrunk("train", "run.toml", "--out", "out", *TINY).code == 0


AMOUNTS = [
    lambda n: f"€{1 + n},{100 + 7 * n}.50",
    lambda n: f"${5 + n * 1.25:.2f}",
    lambda n: f"{1 + n}.{100 + 7 * n},50 EUR",
    lambda n: f"{1 + n},{100 + 7 * n}",
    lambda n: f"{900 + n}" if n < 30 else f"{1 + n},{100 + 7 * n},000",
]


@pytest.mark.parametrize("label", AMOUNTS)
def test_amounts_that_are_not_plain_numbers_are_named_with_the_fix(cotrunk, tmp_path, label):
    rows = [[f"{sentence()} {n}", label(n)] for n in range(60)]
    file = write_csv(tmp_path / "sales.csv", ["text", "price"], rows)
    said = cotrunk("init", file, "-o", "run.toml")
    assert said.code == 2
    assert "currency signs or thousands separators in column 'price'" in said.err
    assert "write them as plain numbers, 1234.50" in said.err


def test_amounts_are_left_out_beside_other_labels_and_are_no_ids(tasks_of):
    tasks, text = tasks_of(lambda n: "ab"[n % 2], beside=[("price", AMOUNTS[0])])
    assert list(tasks) == ["grade"]
    assert "id" not in tasks["grade"]
    assert "left out: numbers with currency signs" in text


def test_a_few_prices_are_still_classes(tasks_of):
    tasks, _ = tasks_of(lambda n: ["$5", "$10", "$20"][n % 3])
    assert tasks["grade"]["classes"] == ["$10", "$20", "$5"]
