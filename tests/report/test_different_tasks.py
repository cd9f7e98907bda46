"""A report on runs that have different tasks shows of each run only what it has."""

import pytest
from parsed import charts_of, read_page

from cotrunk.cli.main import main
from toy import train

BY_RUN = ("sampling", "confusion", "calibration")


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """A run of mood, and one of same and alike."""
    folder = tmp_path_factory.mktemp("different")
    for name, without in (("a", ["tasks.same", "tasks.alike"]), ("b", ["tasks.mood"])):
        changes = ["train.max_steps=2", "sharing.encoder=S2"]
        out = folder / "runs" / name
        assert train(trained / "toy.toml", out, "--set", *changes, "--unset", *without) == 0
    return folder / "runs"


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", str(runs), "-o", str(path)]) == 0
    return path


@pytest.mark.slow
def test_a_chart_without_records_of_the_first_run_is_hidden(page):
    found = read_page(page)
    drawn = charts_of(found)["datasets"]
    sections = [each for each in found.all("section") if each.attributes["id"] in BY_RUN]
    assert len(sections) == len(BY_RUN)
    for section in sections:
        first = section.all("option")[0].attributes["value"]
        hidden = {
            figure.all("div")[0].attributes["data-chart"]: "hidden" in figure.attributes
            for figure in section.all("figure")
        }
        assert len(set(hidden.values())) == 2
        assert hidden == {
            name: first not in {record["run"] for record in drawn[name]} for name in hidden
        }


@pytest.mark.slow
def test_choosing_a_run_draws_its_tasks_and_hides_the_others(browser, page):
    opened, said = browser.new_page(viewport={"width": 400, "height": 900}), []
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(page.as_uri())
    opened.wait_for_selector("html[data-drawn=all]", timeout=120_000)
    for run, tasks in (("b", {"same", "alike"}), ("a", {"mood"}), ("b", {"same", "alike"})):
        for section in BY_RUN:
            opened.select_option(f"#{section} select", run)
            expected = tasks - {"alike"} if section == "calibration" else tasks
            opened.wait_for_function(DRAWN, arg=[section, sorted(expected)], timeout=20_000)
    assert said == []
    opened.close()


@pytest.mark.slow
def test_a_task_that_a_run_lacks_is_one_row_of_the_settings(page):
    (section,) = [s for s in read_page(page).all("section") if s.attributes["id"] == "settings"]
    rows = [
        [cell.words for cell in row.all("th", "td")] for row in section.all("table")[0].all("tr")
    ]
    assert ["tasks.mood", "in this run", "not in this run"] in rows
    assert [row[0] for row in rows if row[0].startswith("tasks.")] == [
        "tasks.mood",
        "tasks.same",
        "tasks.alike",
    ]


DRAWN = """([section, tasks]) => {
  const shown = [...document.querySelectorAll(`#${section} figure:not([hidden]) [data-chart]`)];
  const names = shown.map((each) => each.dataset.chart.replace(`${section}-`, "")).sort();
  const marks = "svg .mark-rect path, svg .mark-symbol path";
  const drawn = shown.every((each) => each.querySelector(marks));
  const wide = shown.every((each) => each.querySelector("svg")?.clientWidth > 200);
  return drawn && wide && names.join() === tasks.join();
}"""
