"""A preset as text: the lines of one file laid over those of another, comments included."""

import tomllib
from dataclasses import dataclass, replace

COMMENT_COLUMN = 31


@dataclass(frozen=True)
class Entry:
    """One ``key = value`` with the comment behind it and the comment lines above it."""

    value: str
    comment: str = ""
    above: tuple[str, ...] = ()

    def changed_to(self, new: "Entry") -> "Entry":
        """Comments stay unless there are new ones."""
        return Entry(new.value, new.comment or self.comment, new.above or self.above)


@dataclass(frozen=True)
class Layer:
    """The lines of a file: entries by full key, such as ``tasks.sst.head``.

    ``tables`` has the comment lines above each table; ``stages`` is everything from the first
    ``[[stages]]`` on, as it is written.
    """

    introduction: tuple[str, ...]
    tables: dict[str, tuple[str, ...]]
    entries: dict[str, Entry]
    stages: tuple[str, ...] = ()

    def over(self, other: "Layer") -> "Layer":
        """The other with what this one changes; an introduction of one line keeps the others."""
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
    """Every value stands on one line; keys may be dotted, or stand in a table."""
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
    """A # inside quotes begins no comment: the value is what TOML can read."""
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
    """A key that is new follows the one it was written after, if that is in the same table."""
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
    """A table that is new follows the last one of its part: ``sharing.pal`` after ``sharing``."""
    order = list(tables)
    for key in entries:
        table = key.rpartition(".")[0]
        if table not in order:
            part = table.partition(".")[0]
            beside = [n for n, other in enumerate(order) if other.partition(".")[0] == part]
            order.insert(beside[-1] + 1 if beside else len(order), table)
    return {table: tables.get(table, ()) for table in order}
