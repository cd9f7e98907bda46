"""Presets as text: one file's lines merged over another's, comments included."""

import tomllib
from dataclasses import dataclass, replace

COMMENT_COLUMN = 31


@dataclass(frozen=True)
class Entry:
    """One ``key = value`` with its trailing comment and the comment lines above it."""

    value: str
    comment: str = ""
    above: tuple[str, ...] = ()

    def changed_to(self, new: "Entry") -> "Entry":
        """Comments stay unless ``new`` has its own."""
        return Entry(new.value, new.comment or self.comment, new.above or self.above)


@dataclass(frozen=True)
class Layer:
    """The lines of a file: entries by full key, such as ``tasks.sst.head``.

    ``tables`` has the comment lines above each table; ``stages`` is everything from the first
    ``[[stages]]`` on, verbatim.
    """

    introduction: tuple[str, ...]
    tables: dict[str, tuple[str, ...]]
    entries: dict[str, Entry]
    stages: tuple[str, ...] = ()

    def over(self, other: "Layer") -> "Layer":
        """``other`` with this layer's changes; a one-line introduction replaces only one line."""
        one_line = len(self.introduction) == 1
        rest = other.introduction[1:] if one_line else ()
        changed = {
            key: other.entries[key].changed_to(entry) if key in other.entries else entry
            for key, entry in self.entries.items()
        }
        everything = {**other.entries, **changed}
        order = _with_new_keys(list(other.entries), list(self.entries))
        return Layer(
            introduction=(*self.introduction, *rest),
            tables=_with_new_tables(other.tables, self.entries),
            entries={key: everything[key] for key in order},
            stages=self.stages or other.stages,
        )

    def with_value(self, key: str, entry: Entry) -> "Layer":
        """With one value changed; its comment goes, unless ``entry`` has one."""
        return replace(self, entries={**self.entries, key: entry})

    def text(self) -> str:
        blocks = ["\n".join(self.introduction)]
        for table, above in self.tables.items():
            lines = [*above, f"[{table}]"]
            for key, entry in self.entries.items():
                if key.rpartition(".")[0] == table:
                    lines += [*entry.above, _line(key.rpartition(".")[2], entry)]
            blocks.append("\n".join(lines))
        if self.stages:
            blocks.append("\n".join(self.stages))
        return "\n\n".join(blocks) + "\n"


def read_layer(text: str) -> Layer:
    """Every value must be on one line; keys may be dotted or inside a table."""
    lines = text.rstrip().splitlines()
    end = next((n for n, line in enumerate(lines) if line.startswith("[[")), len(lines))
    while end and end < len(lines) and lines[end - 1].startswith("#"):
        end -= 1
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    tables: dict[str, tuple[str, ...]] = {}
    entries: dict[str, Entry] = {}
    table = ""
    above: tuple[str, ...] = ()
    for line in lines[first:end]:
        if line.startswith("#"):
            above = (*above, line)
            continue
        if line.startswith("["):
            table = line.strip("[]")
            tables[table] = above
        elif line:
            key, _, value = line.partition(" = ")
            entries[f"{table}.{key}".lstrip(".")] = replace(_entry(value), above=above)
        above = ()
    return Layer(tuple(lines[:first]), tables, entries, tuple(lines[end:]))


def _entry(text: str) -> Entry:
    """Splits value and comment. A # inside quotes does not start a comment."""
    ends = [at for at, letter in enumerate(text) if letter == "#"]
    for end in ends:
        try:
            tomllib.loads(f"value = {text[:end]}")
        except tomllib.TOMLDecodeError:
            continue
        return Entry(text[:end].rstrip(), text[end:])
    return Entry(text.rstrip())


def _line(key: str, entry: Entry) -> str:
    line = f"{key} = {entry.value}"
    return f"{line:<{COMMENT_COLUMN - 1}} {entry.comment}" if entry.comment else line


def _with_new_keys(order: list[str], keys: list[str]) -> list[str]:
    """A new key follows the key it was written after, if both are in the same table."""
    before = ""
    for key in keys:
        if key not in order:
            beside = key.rpartition(".")[0] == before.rpartition(".")[0]
            order.insert(order.index(before) + 1 if beside else len(order), key)
        before = key
    return order


def _with_new_tables(
    tables: dict[str, tuple[str, ...]], entries: dict[str, Entry]
) -> dict[str, tuple[str, ...]]:
    """A new table follows the last one of its section: ``sharing.pal`` after ``sharing``."""
    order = list(tables)
    for key in entries:
        table = key.rpartition(".")[0]
        if table not in order:
            part = table.partition(".")[0]
            beside = [n for n, other in enumerate(order) if other.partition(".")[0] == part]
            order.insert(beside[-1] + 1 if beside else len(order), table)
    return {table: tables.get(table, ()) for table in order}
