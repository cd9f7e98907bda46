"""Sweep files: what they mean, and that every mistake is named before anything starts."""

import tomllib
from itertools import product

import pytest

from cotrunk.build.trial import settings_of_job
from cotrunk.cli.main import main
from cotrunk.errors import UserError
from cotrunk.study.sweep.estimate import paces
from cotrunk.study.sweep.queue import order_of
from cotrunk.study.sweep.spec import read_spec, spec_of
from cotrunk.study.sweep.sweep import prepare_sweep
from cotrunk.study.sweep.trials import raw_of


@pytest.fixture
def spec(toy):
    """Reads a sweep over the toy config."""

    def read(text: str, *, base: str = 'base = "toy.toml"'):
        return spec_of(tomllib.loads(f"{base}\n{text}"), toy.parent, place="sweep.toml")

    return read


@pytest.fixture
def trials(spec, tmp_path):
    """The trials of a sweep, all checked."""
    return lambda text: prepare_sweep(spec(text), tmp_path / "out").trials


@pytest.fixture
def settings(spec, trials):
    """The settings of all trials of a sweep."""

    def read(text: str):
        made = spec(text)
        return [settings_of_job(raw_of(made, trial), "here") for trial in trials(text)]

    return read


@pytest.fixture
def mistakes(spec, tmp_path):
    """The error lines of a wrong sweep."""

    def read(text: str, **more) -> list[str]:
        with pytest.raises(UserError) as found:
            prepare_sweep(spec(text, **more), tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return list(found.value.lines)

    return read


def test_the_sweep_of_the_documentation_is_read_as_it_says(toy, tmp_path):
    file = toy.with_name("sweep.toml")
    file.write_text(
        'base = "toy.toml"\nseeds = 3\n[axes]\n"sharing.encoder" = ["S2", "S1 I1", "I2"]\n'
        '"train.lr" = { log_uniform = [1e-5, 1e-3], samples = 4 }\n'
    )
    found = prepare_sweep(read_spec(file), tmp_path / "out").trials
    rates = {trial.choices["train.lr"] for trial in found}
    assert len(rates) == 4
    assert all(1e-5 <= rate <= 1e-3 for rate in rates)
    wanted = set(product(["S2", "S1 I1", "I2"], rates, [11711, 11712, 11713]))
    assert {(*trial.choices.values(), trial.seed) for trial in found} == wanted
    assert len({trial.name for trial in found}) == len(found) == 36
    assert all(set(trial.name) <= set(PORTABLE) for trial in found)


PORTABLE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+_=,-"


def test_every_trial_gets_its_choices_its_seed_and_the_common_changes(settings):
    found = settings(
        'seeds = [5, 7]\nthreads = 2\nunset = ["tasks.alike"]\n[overrides]\n"train.batch" = 4\n'
        '[axes]\n"train.epochs" = [1, 2]'
    )
    assert [(one.train.seed, one.train.epochs) for one in found] == [(5, 1), (5, 2), (7, 1), (7, 2)]
    assert {(one.train.batch, one.train.threads, *one.tasks) for one in found} == {
        (4, 2, "mood", "same")
    }


def test_false_removes_a_table_and_a_table_replaces_it(settings):
    found = settings('[axes]\n"sharing.pal" = [{ size = 24, heads = 2 }, false]')
    assert [one.sharing.pal and one.sharing.pal.size for one in found] == [24, None]
    found = settings('[axes]\n"tasks.alike" = [false]\n"tasks.mood.segments" = [true, false]')
    assert [list(one.tasks) for one in found] == [["mood", "same"]] * 2
    assert [one.tasks["mood"].segments for one in found] == [True, False]


def test_subsets_of_tasks_and_stages_are_axes(settings):
    found = settings('[axes]\ntasks = [["same", "mood"], ["alike"]]')
    assert [list(one.tasks) for one in found] == [["mood", "same"], ["alike"]]
    found = settings("[axes]\nstages = [[], [{ epochs = 1 }, { lr = 0.01 }]]")
    assert [len(one.stages_of_training) for one in found] == [1, 2]


def test_files_are_an_axis(settings):
    found = settings(
        '[axes]\n"tasks.mood.train" = ["mood-train.csv", ["mood-train.csv", "mood-dev.csv"]]'
    )
    assert [one.tasks["mood"].train for one in found] == [
        "mood-train.csv",
        ["mood-train.csv", "mood-dev.csv"],
    ]


def test_zipped_axes_go_together_and_others_cross_them(trials):
    found = trials(
        'zip = [["sharing.encoder", "train.lr"]]\n[axes]\n"sharing.encoder" = ["S2", "I2"]\n'
        '"train.epochs" = [1, 2]\n"train.lr" = [0.1, 0.2]'
    )
    pairs = [tuple(trial.choices.values()) for trial in found]
    assert pairs == [("S2", 0.1, 1), ("S2", 0.1, 2), ("I2", 0.2, 1), ("I2", 0.2, 2)]


def test_variants_are_named_sets_of_changes(trials, settings):
    text = (
        '[axes.plan.variants.shared]\n"sharing.encoder" = "S2"\n'
        '[axes.plan.variants.apart]\n"sharing.encoder" = "I2"\n"train.epochs" = 1'
    )
    assert [trial.choices for trial in trials(text)] == [{"plan": "shared"}, {"plan": "apart"}]
    found = settings(text)
    assert [(one.sharing.encoder, one.train.epochs) for one in found] == [("S2", 2), ("I2", 1)]


def test_drawn_weights_lie_on_the_simplex(settings):
    keys = '["tasks.mood.weight", "tasks.same.weight", "tasks.alike.weight"]'
    found = settings(f"[axes]\nweights = {{ simplex = {keys}, total = 3, samples = 20 }}")
    sums = [sum(task.weight for task in one.tasks.values()) for one in found]
    assert sums == pytest.approx([3.0] * 20)
    assert all(task.weight >= 0 for one in found for task in one.tasks.values())


def test_more_samples_and_seeds_keep_the_trials_there_were(trials):
    text = 'seeds = {}\n[axes]\n"train.lr" = {{ uniform = [0.1, 0.5], samples = {} }}'
    few, many = ({t.name for t in trials(text.format(*counts))} for counts in ((1, 2), (2, 4)))
    assert few < many
    assert len(many) == 8


def test_a_value_that_looks_like_another_in_a_name_does_not_rename_its_run(trials):
    text = '[axes]\n"sharing.encoder" = ["S1 I1"{}]'
    (before,) = trials(text.format(""))
    first, second = trials(text.format(', "S1  I1"'))
    assert first.name == before.name != second.name


@pytest.mark.parametrize("search", ["grid", "tpe"])
def test_variants_that_look_alike_have_runs_of_their_own(spec, tmp_path, search):
    text = (
        f'search = "{search}"\n[axes.plan.variants."a b"]\n"sharing.encoder" = "S2"\n'
        '[axes.plan.variants.a-b]\n"sharing.encoder" = "I2"'
    )
    order = order_of(spec(text), tmp_path, lag=2)
    found = [order.get(number) for number in range(order.count)]
    assert len({trial.name for trial in found}) == len(found) == 2


def test_a_random_search_draws_different_points_and_all_if_there_are_few(spec, tmp_path):
    text = (
        'search = "random"\ntrials = {}\n[axes]\n"train.epochs" = [1, 2, 3]\n"train.batch" = [4, 8]'
    )
    for wanted, count in ((4, 4), (100, 6)):
        order = order_of(spec(text.format(wanted)), tmp_path, lag=1)
        found = [order.get(number) for number in range(order.count)]
        assert len({trial.name for trial in found}) == len(found) == count


def test_a_preset_can_be_the_base(spec, tmp_path):
    made = spec('[axes]\n"sharing.encoder" = ["S6", "I6"]', base='preset = "hybrid-bert"')
    assert [t.choices["sharing.encoder"] for t in prepare_sweep(made, tmp_path / "o").trials] == [
        "S6",
        "I6",
    ]


WRONG = {
    '[axes]\n"train.lrr" = [0.1]': ["train.lrr", "'lr'"],
    '[axes]\n"tasks.moot.weight" = [0.1]': ["tasks.moot.weight", "'mood'"],
    '[axes]\n"train.lr" = []': ["train.lr", "an empty list"],
    '[axes]\n"train.lr" = 3': ["train.lr", "a list of values"],
    '[axes]\n"train.lr" = { uniform = [0.2, 0.1], samples = 2 }': ["train.lr", "smaller"],
    '[axes]\n"train.lr" = { log_uniform = [0, 0.1], samples = 2 }': ["train.lr", "above 0"],
    '[axes]\n"train.lr" = { uniform = [0.1, 0.2] }': ["train.lr", "samples"],
    '[axes]\n"train.lr" = { uniform = [0.1, 0.2], sampels = 2 }': ["sampels", "'samples'"],
    '[axes]\n"train.seed" = [1, 2]': ["seeds"],
    '[axes]\nw = { simplex = ["tasks.mood.weight", "tasks.same.weight"], values = [[0.5, 0.6]] }': [
        "[0.5, 0.6]",
        "add up to 1",
    ],
    '[axes]\ntasks = [["moot"]]': ["'moot'", "'mood'"],
    '[axes]\n"sharing.encoder" = ["S2", "S3"]': ["encoder=S3", "sharing.encoder"],
    '[axes]\n"train.lr" = [0.1, "fast"]': ["train.lr = 'fast'", "a number"],
    '[axes]\n"train.lr" = [0.1, 0.1]': ["same settings"],
    'zip = [["train.lr", "train.batch"]]\n[axes]\n"train.lr" = [0.1]\n"train.batch" = [4, 8]': [
        "train.lr has 1, train.batch has 2"
    ],
    'zip = [["train.lr", "train.bach"]]\n[axes]\n"train.lr" = [0.1]\n"train.batch" = [4, 8]': [
        "'train.batch'"
    ],
    "": ["nothing varies"],
    "seeds = 0": ["seeds"],
    "seeds = [1, 1]": ["seeds"],
    'seeds = 2\nsearch = "gird"': ["'grid'"],
    'seeds = 2\nscheduler = "asha"\nobjective = "moot"': ["'mood'"],
    'seeds = 2\nsede = 3': ["sede"],
    'seeds = 2\nunset = ["tasks.moot"]': ["unset", "'tasks.mood'"],
    'seeds = 2\n[overrides]\n"train.epoch" = 1': ["train.epoch", "'epochs'"],
    'trials = 3\n[axes]\n"train.lr" = [0.1, 0.2]': ["trials", "grid"],
    'scheduler = "asha"\n[axes]\ntasks = [["mood"], ["mood", "same"]]': ["objective", "mood"],
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG, ids=[words[-1] for words in WRONG.values()])
def test_a_mistake_is_one_line_with_its_place(mistakes, text):
    (line,) = mistakes(text)
    assert line.startswith("sweep.toml: ")
    for word in WRONG[text]:
        assert word in line


def test_all_mistakes_of_a_file_are_named_at_once(mistakes):
    lines = mistakes('seeds = 0\nsearch = "best"\n[axes]\n"train.lr" = []\n"train.batch" = 3')
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ('base = "toys.toml"', ["toys.toml", "'toy.toml'"]),
        ('preset = "hybrid"', ["hybrid", "'hybrid-bert'"]),
        ("", ["base", "preset"]),
        (
            'base = "toy.toml"\npreset = "hybrid-bert"',
            ["remove one", '"toy.toml"', '"hybrid-bert"'],
        ),
    ],
)
def test_a_sweep_without_a_base_is_refused(mistakes, base, words):
    (line,) = mistakes('[axes]\n"train.lr" = [0.1]', base=base)
    assert all(word in line for word in words)


def test_a_base_that_is_wrong_is_named_as_itself(toy, mistakes):
    toy.write_text(toy.read_text().replace("batch = 8", 'batch = "8"'))
    (line,) = mistakes('[axes]\n"train.lr" = [0.1, 0.2]')
    assert str(toy) in line
    assert "train.batch" in line


@pytest.mark.slow
def test_the_steps_that_a_dry_run_times_are_not_tracked(toy, tmp_path):
    tracked = tmp_path / "tracked"
    overrides = f'"train.max_steps" = 2\n"track.to" = ["tensorboard"]\n"track.folder" = "{tracked}"'
    file = toy.with_name("sweep.toml")
    file.write_text(f'base = "toy.toml"\nseeds = 2\n[overrides]\n{overrides}\n', encoding="utf-8")
    assert main(["sweep", str(file), "-o", str(tmp_path / "out"), "--dry-run"]) == 0
    assert not tracked.exists()


def test_what_the_first_step_does_for_all_trials_is_counted_once():
    called, started, first, second, third = 0.0, 2.0, 35.0, 36.0, 37.0
    assert paces([called, started, first, second, third]) == (2.0, 32.0, 1.0)
    assert paces([called, started, first]) == (2.0, 0.0, 33.0)
