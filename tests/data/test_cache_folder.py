"""Where the cache lies."""

from pathlib import Path

import platformdirs

from cotrunk.data.tokens.store import cache_folder


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("COTRUNK_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_the_cache_is_where_the_system_keeps_caches_otherwise(monkeypatch, tmp_path):
    monkeypatch.delenv("COTRUNK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == Path(platformdirs.user_cache_dir("cotrunk"))
    assert cache_folder().is_relative_to(tmp_path)
    assert not cache_folder().exists()
