"""S8: safetensors files that lie, and mutations of a small one."""

import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from faults.figure import Figure, Size

MUTATIONS: dict[Size, int] = {"quick": 500, "long": 1_000_000}
LONGEST_SECONDS, MOST_MEGABYTES = 1.0, 200.0
BATCH = 100_000
TENSORS = {"a": (2, 3), "b.weight": (4,), "c": ()}
INTERESTING = (0, 1, 7, 8, 0x7F, 0x80, 0xFF, *b'{}[]",:0189-eE.\\')


def s8(seed: int, size: Size) -> Figure:
    """In processes of their own: a crash counts as all of its mutations lost."""
    tried = held = 0
    notes: list[str] = []
    count = MUTATIONS[size]
    jobs = [f"crafted {seed} 0"]
    jobs += [f"{seed} {at} {min(BATCH, count - at)}" for at in range(0, count, BATCH)]
    for job in jobs:
        done = subprocess.run(
            [sys.executable, "-m", "faults.weights", *job.split()],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            tried += BATCH
            notes.append(f"{job} ended with {done.returncode}: {done.stderr[-200:]}")
            continue
        found = json.loads(done.stdout)
        tried, held = tried + found["tried"], held + found["held"]
        notes += found["notes"]
    claim = f"crafted and mutated safetensors: read or refused within {LONGEST_SECONDS:g} s and "
    claim += f"{MOST_MEGABYTES:g} MB, no crash"
    return Figure("S8", claim, tried, held, "; ".join(notes[:4]))


def crafted(folder: Path) -> Iterator[tuple[str, Path]]:
    """Files that must be refused."""
    file = folder / "model.safetensors"
    wide = {f"t{n}": _entry(offsets=(0, 4)) for n in range(100_000)}
    headers: dict[str, object] = {
        "100,000 tensors": wide,
        "21,000 empty tensors": {f"t{n}": _entry((0,), (0, 0)) for n in range(21_000)},
        "overlap": {"a": _entry(), "b": _entry()},
        "hole": {"a": _entry(), "b": _entry(offsets=(8, 12))},
        "backwards": {"a": _entry(offsets=(4, 0))},
        "negative": {"a": _entry((-1,), (0, 4))},
        "beyond the end": {"a": _entry((2**40,), (0, 2**42))},
        "product overflows": {"a": _entry((2**32, 2**32, 2**32), (0, 4))},
        "shape lies": {"a": _entry((9,), (0, 4))},
        "type lies": {"a": _entry(dtype="F64")},
        "unknown type": {"a": _entry(dtype="X99")},
        "type is a list": {"a": _entry() | {"dtype": ["F32"]}},
        "no offsets": {"a": {"dtype": "F32", "shape": [1]}},
        "an array": [1, 2],
        "a number": 7,
        "metadata is a list": {"__metadata__": [1], "a": _entry()},
    }
    for name, header in headers.items():
        yield name, _written(file, json.dumps(header).encode(), bytes(16))
    twice = b'{"a":%s,"a":%s}' % ((json.dumps(_entry()).encode(),) * 2)
    texts = {
        "nested": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "not UTF-8": b'{"\xff":1}',
        "empty": b"",
        "a key twice": twice,
        "blanks": b" " * 3_000_000,
    }
    for name, text in texts.items():
        yield name, _written(file, text, bytes(16))
    for name, length in (("header of 100 MB", 100 * 2**20), ("header without end", 2**64 - 1)):
        file.write_bytes(struct.pack("<Q", length) + b"{" * 100)
        with file.open("r+b") as sparse:
            sparse.truncate(101 * 2**20)
        yield name, file
    file.write_bytes(b"\x01")
    yield "one byte", file


def _entry(
    shape: tuple[int, ...] = (1,), offsets: tuple[int, int] = (0, 4), dtype: str = "F32"
) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def _written(file: Path, header: bytes, body: bytes) -> Path:
    file.write_bytes(struct.pack("<Q", len(header)) + header + body)
    return file


def mutated(draw: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4, 16))):
        at = draw.randrange(len(changed))
        match draw.randrange(6):
            case 0:
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at] = draw.choice(INTERESTING)
            case 2:
                changed[at:at] = bytes([draw.choice(INTERESTING)])
            case 3 if len(changed) > 1:
                del changed[at : at + draw.randint(1, 8)]
            case 4:
                changed[at : at + 8] = struct.pack("<Q", draw.getrandbits(draw.randint(1, 64)))
            case _:
                del changed[max(1, at) :]
        if not changed:
            changed = bytearray(b"\0")
    return bytes(changed)


def _check_crafted(folder: Path) -> dict[str, object]:
    from cotrunk.errors import UserError
    from cotrunk.model.weights.files import read_tensors

    tried, wrong, slowest, before = 0, list[str](), 0.0, _peak()
    for name, file in crafted(folder):
        tried += 1
        begun = time.perf_counter()
        try:
            read_tensors([file])
            wrong.append(f"{name}: read")
        except UserError as error:
            if not str(error).isprintable():
                wrong.append(f"{name}: {error}")
        slowest = max(slowest, time.perf_counter() - begun)
    more = _peak() - before
    if slowest > LONGEST_SECONDS or more > MOST_MEGABYTES:
        wrong.append("too slow or too large")
    note = f"crafted: at most {slowest:.2f} s and {more:.0f} MB"
    return {"tried": tried, "held": tried - len(wrong), "notes": [note, *wrong]}


def _check_mutations(folder: Path, seed: int, first: int, count: int) -> dict[str, object]:
    import torch
    from safetensors.torch import save

    from cotrunk.errors import UserError
    from cotrunk.model.weights.files import read_tensors

    sound = save({name: torch.ones(size) for name, size in TENSORS.items()}, {"format": "pt"})
    file, wrong, before = folder / "model.safetensors", list[str](), _peak()
    for at in range(first, first + count):
        file.write_bytes(mutated(Random(f"{seed} {at}"), sound))
        begun = time.perf_counter()
        try:
            read_tensors([file])
        except UserError as error:
            if len(str(error).splitlines()) != 1:
                wrong.append(f"{at}: {error}")
        except Exception as error:
            wrong.append(f"{at}: {type(error).__name__}: {error}")
        if time.perf_counter() - begun > 5 * LONGEST_SECONDS:  # the machine may be busy
            wrong.append(f"{at}: slow")
    if _peak() - before > MOST_MEGABYTES:
        wrong.append("too much memory")
    return {"tried": count, "held": count - len(wrong), "notes": wrong}


def _peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        if argv[0] == "crafted":
            import safetensors.torch  # noqa: F401  (its import is not part of the time)

            found = _check_crafted(Path(name))
        else:
            found = _check_mutations(Path(name), *map(int, argv))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
