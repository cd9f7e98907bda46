"""A service in a process of its own, to be asked, overloaded and ended."""

import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faults.commands import Commands, Running, Said

START_SECONDS = 300.0


@dataclass(frozen=True)
class Served:
    url: str
    running: Running

    @property
    def pid(self) -> int:
        return self.running.pid

    def megabytes(self) -> float:
        """Its resident memory."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) / 1024

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stop(self) -> tuple[Said, float]:
        """SIGTERM; what it said, and the seconds until it ended."""
        begun = time.perf_counter()
        self.running.send(signal.SIGTERM)
        return self.running.wait(), time.perf_counter() - begun


@contextmanager
def served(
    commands: Commands, run: Path, *more: object, env: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """The service of a run on a free port; it is ended with the block."""
    running = commands.start("serve", run, "--port", 0, *more, env=env)
    try:
        yield Served(address(running), running)
    finally:
        running.send(signal.SIGKILL)
        running.wait()


def address(running: Running) -> str:
    """The first line that it prints."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        said = running.out.read_text() if running.out.exists() else ""
        if "\n" in said:
            return said.split("\n")[0]
        if running.has_ended():
            raise RuntimeError(f"the service did not start: {running.wait()}")
        time.sleep(0.02)
    raise RuntimeError("the service did not start in time")
