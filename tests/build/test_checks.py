"""What cannot be trained is refused before any data file is read, all of it at once, by its key."""

from shutil import rmtree

import pytest

from cotrunk.build.checks import read_checked
from cotrunk.cli.main import main
from cotrunk.data.tokens.store import cache_folder
from cotrunk.errors import UserError
from toy import prepared, train

ONE_BY_ONE = [
    (["train.alpha=0.5"], 'train.alpha = 0.5: only used if sampling = "power"'),
    (["train.cap=9"], 'train.cap = 9: only used if sampling = "temperature"'),
    (
        ["train.sampling=temperature", "train.temperature=0.5"],
        "train.temperature = 0.5: must be 1 or more",
    ),
    (
        ["train.sampling=sequential", "train.steps_per_epoch=9"],
        'train.steps_per_epoch = 9: not used if sampling = "sequential"; set',
    ),
    (
        ["train.steps_per_epoch=9", "train.share_of_data=0.5"],
        "train.steps_per_epoch and share_of_data each set the length of an epoch; keep only one",
    ),
    (["train.gradient_options.x=1"], "train.gradient_options: sum has no option 'x'"),
    (
        ["train.regularize=smart", "train.regularize_options.radius=-1.0"],
        "train.regularize_options.radius = -1.0 must be a number above 0",
    ),
    (
        ["train.loss_weighting=dwa", "tasks.mood.weight=0"],
        "train.loss_weighting: dwa needs initial weights above 0; mood has 0",
    ),
    (["tasks.mood.loss=mse"], "tasks.mood.loss = 'mse': must be cross-entropy"),
    (["tasks.mood.test=absent.csv"], "tasks.mood.test: there is no file"),
    (
        ["sharing.encoder=I2", "train.gradients=pcgrad"],
        "train.gradients = 'pcgrad' has no effect: in this plan no two tasks",
    ),
    (
        ["train.sampling=sqrt", "train.gradients=pcgrad"],
        "train.gradients = 'pcgrad' compares the tasks of a step, but sampling = 'sqrt' trains one",
    ),
    (["train.init_from=nowhere"], "train.init_from: "),
    (["tasks.mood.columns=['x']"], "tasks.mood.columns: has no effect, because "),
]


def lines(config, *changes):
    with pytest.raises(UserError) as error:
        prepared(config, *changes)
    assert not cache_folder().exists()  # no data file was read
    return list(error.value.lines)


@pytest.mark.parametrize(("changes", "line"), ONE_BY_ONE, ids=[c[1][:40] for c in ONE_BY_ONE])
def test_a_wrong_setting_is_refused_by_its_key_before_data_are_read(toy, changes, line):
    (found,) = lines(toy, *changes)
    assert line in found


def test_all_that_is_wrong_is_said_at_once(toy):
    changes = [
        *("train.alpha=0.5", "train.gradient_options.x=1", "tasks.same.share=0.5"),
        *("train.early_stopping=1", "train.evaluate=never", "tasks.mood.train=absent.csv"),
        "tasks.mood.loss=mse",
    ]
    keys = [line.split(" ")[0].rstrip(":") for line in lines(toy, *changes)]
    assert keys == [
        *("tasks.mood.loss", "train.alpha", "train.gradient_options", "train.early_stopping"),
        *("tasks.same.share", "tasks.mood.train"),
    ]


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        (
            ["train.keep=nope", "train.gradients=pcgrd", "tasks.mood.train=gone.csv"],
            ["train.gradients", "train.keep", "tasks.mood.train"],
        ),
        (
            [
                *("train.keep=nope", "tasks.mood.pair=cosine", "sharing.lora.layers=[9]"),
                "train.temperature=2",
            ],
            ["train.keep", "tasks.mood.pair", "train.temperature", "sharing.lora.layers"],
        ),
        (
            ["tasks.mood.pair=cosine", "sharing.lora.layers=[9]"],
            ["tasks.mood.pair", "sharing.lora.layers"],
        ),
        (
            [
                *("tasks.m.kind=mlm", "tasks.m.texts_of=['mood']", "tasks.m.rate=2"),
                *("tasks.m.pooling=mean", "tasks.m.head.depth=2"),
            ],
            ["tasks.m.rate", "tasks.m.pooling", "tasks.m.head"],
        ),
        (["train.sampling=powr", "train.alpha=0.5"], ["train.sampling"]),  # alpha may be right
        (["stages=[{epohcs=1}]", "tasks.mood.loss=mse"], ["stages", "tasks.mood.loss"]),
    ],
)
def test_what_is_wrong_at_several_depths_is_said_at_once(toy, changes, keys):
    with pytest.raises(UserError) as error:
        read_checked(toy, changes) and prepared(toy, *changes)
    found = [line.removeprefix("overrides: ") for line in str(error.value).splitlines()]
    found = [line.removeprefix(f"{toy}: ") for line in found]
    assert [line.split(" ")[0].rstrip(":") for line in found] == keys


def test_all_that_is_wrong_with_the_network_is_said_at_once(toy):
    changes = ["encoder.max_tokens=5000", "train.freeze=encoder", "train.gradients=pcgrad"]
    keys = [line.split(" ")[0] for line in lines(toy, *changes)]
    assert keys == ["encoder.max_tokens", "train.freeze", "train.gradients"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["sharing.encoder=S2"], "which cannot be merged"),
        (["encoder.weights=random:tiny-roberta"], "the run has a different encoder"),
    ],
)
def test_a_run_that_cannot_be_the_start_is_refused_before_data_are_read(
    toy, tmp_path, changes, told
):
    before = ["--set", "sharing.encoder=I2", "train.max_steps=1", "train.evaluate=never"]
    assert train(toy, tmp_path / "apart", *before) == 0
    rmtree(cache_folder())
    (found,) = lines(toy, "train.init_from=apart", *changes)
    assert found.startswith("train.init_from: ")
    assert told in found


def test_a_key_of_a_stage_is_said_with_its_stage(toy):
    stages = "stages=[{epochs=1}, {epochs=1, alpha=0.5}]"
    (line,) = lines(toy, stages)
    assert line.startswith("stages 2: alpha = 0.5: only")


def test_a_key_that_is_wrong_for_one_stage_only_is_said_with_stage_and_place(toy):
    stages = 'stages=[{epochs=1, sampling="power"}, {epochs=1}]'
    (line,) = lines(toy, stages, "train.alpha=0.5")
    assert line.startswith("stages 2: train.alpha = 0.5: only")


def test_a_key_that_is_wrong_for_all_stages_is_said_once(toy):
    (line,) = lines(toy, "stages=[{epochs=1}, {epochs=1}]", "train.alpha=0.5")
    assert line.startswith("train.alpha = 0.5: only")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["tasks.mood.share=0.5"],
            'tasks.mood.share: has no effect, because sampling = "together" trains all tasks',
        ),
        (
            ["tasks.mood.share=0.5", "train.sampling=round-robin"],
            'tasks.mood.share: has no effect, because sampling = "round-robin" has a fixed order',
        ),
        (
            ["tasks.mood.share=0.5", "tasks.same.share=0.5", "train.sampling=sqrt"],
            "tasks.mood.share, tasks.same.share: must add up to less than 1",
        ),
        (
            [*(f"tasks.{name}.share=0.3" for name in ("mood", "same", "alike")),
             "train.sampling=sqrt"],
            "shares of all tasks must add up to 1; found 0.9",
        ),
        (
            ['stages=[{tasks=["mood"]}, {sampling="sqrt"}, {epochs=1}]', "tasks.mood.share=0.5"],
            'stages 3: tasks.mood.share: has no effect, because sampling = "together" trains all',
        ),
        (
            ['stages=[{tasks=["mood"]}, {tasks=["same"]}]'],
            "tasks.alike: no stage trains it; add it to the tasks of a stage, or remove it",
        ),
    ],
)  # fmt: skip
def test_shares_and_tasks_that_cannot_be_trained_are_refused(toy, changes, line):
    (found,) = lines(toy, *changes)
    assert line in found


@pytest.mark.parametrize("share", ["0", "1", "-0.5", "1.5"])
def test_a_share_lies_between_0_and_1(toy, capsys, share):
    assert main(["train", str(toy), "--set", f"tasks.mood.share={share}"]) == 2
    assert "tasks.mood.share" in capsys.readouterr().err


def test_tasks_belong_to_a_stage_and_must_be_there(toy, capsys):
    assert main(["train", str(toy), "--set", 'train.tasks=["mood"]']) == 2
    assert "train.tasks: only a stage can select tasks" in capsys.readouterr().err
    assert main(["train", str(toy), "--set", 'stages=[{tasks=["moood"]}]']) == 2
    said = capsys.readouterr().err
    assert "stages 1: tasks: 'moood' is not a task; tasks are mood, same, alike" in said
    assert "did you mean 'mood'?" in said
    assert main(["train", str(toy), "--set", "stages=[{tasks=[]}]"]) == 2
    assert "stages 1: tasks = []: must have 1 or more entries" in capsys.readouterr().err
