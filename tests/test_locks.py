"""The lock files: every package that is installed, with a hash, from no particular index."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = [ROOT / "locks" / name for name in ("build.txt", "dev.txt", "cuda.txt")]


def name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]+", requirement)[0]).lower()


def locked(lock: Path) -> dict[str, str]:
    """Versions by name."""
    lines = re.findall(r"^([^\s=]+)==(\S+) \\$", lock.read_text(), re.M)
    return {name(package): version for package, version in lines}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_entry_is_a_version_with_hashes_and_nothing_else(lock):
    entries = lock.read_text().replace("\\\n", " ").splitlines()
    assert len(entries) == len(locked(lock)) > 5
    for entry in entries:
        assert re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+ *", entry), entry


def test_the_lock_has_all_that_the_package_and_its_tests_need():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    others = re.fullmatch(r"cotrunk\[(.+)\]", extras["dev"][0])[1].split(",")
    needed = {*project["dependencies"], *extras["dev"], *(x for one in others for x in extras[one])}
    found = locked(ROOT / "locks/dev.txt")
    missing = {name(requirement) for requirement in needed} - found.keys() - {"cotrunk", "torch"}
    assert not missing, "run: make lock"


def test_packages_of_cuda_are_installed_only_for_a_torch_that_needs_them():
    def is_for_cuda(package: str) -> bool:
        return package.startswith(("nvidia-", "cuda-", "triton"))

    assert all(map(is_for_cuda, locked(ROOT / "locks/cuda.txt")))
    assert not any(map(is_for_cuda, locked(ROOT / "locks/dev.txt")))


def test_the_lock_agrees_with_the_constraints():
    text = (ROOT / "constraints.txt").read_text()
    pins = dict(re.findall(r"^([a-z]+)==(\S+)", text, re.M))
    found = locked(ROOT / "locks/dev.txt")
    assert "torch" in pins
    assert {package: found.get(package, version) for package, version in pins.items()} == pins
