"""What is installed, and what stays in the repository."""

import tomllib
from pathlib import Path

import cotrunk
from cotrunk.data import sample

ROOT = Path(__file__).parents[1]
PACKAGE = Path(cotrunk.__file__).parent


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_holds_the_package_and_nothing_else():
    wheel = project()["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/cotrunk"]}
    assert PACKAGE == ROOT / "src" / "cotrunk"


def test_the_wheel_has_the_sample_files_but_not_what_writes_them():
    inside = {path.name for path in sample.folder().iterdir() if path.is_file()}
    tasks, splits = ("sentiment", "paraphrase", "similarity"), ("train", "dev")
    assert inside == {"__init__.py", *(f"{task}-{split}.csv" for task in tasks for split in splits)}
    generators = {path.name for path in (ROOT / "tools" / "sample").glob("*.py")}
    assert "generate.py" in generators
    assert not (generators - {"__init__.py"}) & inside


def test_nothing_in_the_package_imports_the_tools():
    for file in PACKAGE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "import tools" not in text
        assert "from tools" not in text


def test_packages_that_only_tests_need_are_not_installed_with_the_package():
    needed = " ".join(project()["project"]["dependencies"])
    for name in ("transformers", "peft", "seqeval", "scikit-learn", "pytest"):
        assert name not in needed
        assert any(name in line for line in project()["project"]["optional-dependencies"]["dev"])
