"""``cotrunk data check`` accounts for every row of a file that is divided into splits."""

from shapes import sentence, write_csv


def test_rows_that_another_task_holds_out_are_counted(cotrunk, tmp_path):
    texts = [f"{sentence()} {n}" for n in range(300)]
    rows = [[text, "ab"[n % 2], "cde"[n % 3]] for n, text in enumerate(texts)]
    write_csv(tmp_path / "data.csv", ["text", "mood", "topic"], rows)
    assert cotrunk("init", "data.csv", "-o", "run.toml").code == 0
    check = ("data", "check", "run.toml", "--set", "encoder.weights=random:tiny")
    tasks = cotrunk(*check, "--json").document["tasks"]
    held = {name: splits["train"]["held_out_by_others"] for name, splits in tasks.items()}
    assert all(held.values())
    for name, splits in tasks.items():
        assert splits["train"]["rows"] + splits["dev"]["rows"] + held[name] == 300
        assert splits["dev"]["held_out_by_others"] == 0
    shown = cotrunk(*check).out
    assert shown.count("held out by other tasks") == len(tasks)


def test_one_task_alone_has_no_such_rows(cotrunk, tmp_path):
    rows = [[f"{sentence()} {n}", "ab"[n % 2]] for n in range(60)]
    write_csv(tmp_path / "data.csv", ["text", "mood"], rows)
    assert cotrunk("init", "data.csv", "-o", "run.toml").code == 0
    said = cotrunk("data", "check", "run.toml", "--set", "encoder.weights=random:tiny")
    assert said.code == 0
    assert "held out by other tasks" not in said.out
