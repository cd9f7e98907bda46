"""What is installed, and what stays in the repository."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import cotrunk
from cotrunk.data import sample

ROOT = Path(__file__).parents[1]
PACKAGE = Path(cotrunk.__file__).parent
OF_REPORTS = {"altair", "jinja2", "markupsafe", "vl_convert"}
OF_THE_SERVICE = {"fastapi", "prometheus_client", "starlette", "uvicorn"}
EXTRAS = OF_REPORTS | OF_THE_SERVICE
"""Imported at the top of modules which only the command that needs them imports."""


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
        extras = project()["project"]["optional-dependencies"]
        assert any(name in line for line in (*extras["dev"], *extras["export"]))


@pytest.mark.slow
def test_a_built_wheel_trains_the_sample_config_where_it_is_unpacked(tmp_path):
    """Dependencies come from this environment, because torch is large; the package does not."""
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    assert not (place / "tools").exists()
    assert not (place / "tests").exists()

    def cotrunk_says(*arguments: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(place)}
        command = [sys.executable, "-m", "cotrunk", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    cotrunk_says("init", "-o", "run.toml")
    quick = ["encoder.weights=random:tiny", "sharing.encoder=S1 I1", "train.max_steps=1"]
    cotrunk_says("train", "run.toml", "--out", "run", "--set", *quick, "train.batch=4")
    found = json.loads(cotrunk_says("info", "run", "--json"))
    assert found["steps"] == 1
    where = [sys.executable, "-c", "import cotrunk; print(cotrunk.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(place)}
    said = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert Path(said.stdout.strip()).is_relative_to(place)


@pytest.mark.slow
def test_every_package_that_is_imported_at_the_top_is_a_dependency():
    """Others are extras, imported where they are used."""
    needed = {re.match(r"[\w-]+", line)[0] for line in project()["project"]["dependencies"]}
    needed = {name.replace("-", "_") for name in needed}
    for file in PACKAGE.rglob("*.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                known = {*needed, *sys.stdlib_module_names, "cotrunk", "pydantic_core", *EXTRAS}
                assert top in known, f"{file}: {name}"
