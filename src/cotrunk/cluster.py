"""What sweeps and services have in common when they use Ray."""

import logging
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cotrunk.errors import UserError
from cotrunk.runs.folder import is_alive

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else workers would not see a GPU
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Keeps Ray on 127.0.0.1 (its documented setting for laptops); otherwise it listens on all
interfaces."""
LOCAL_HOSTS = ("127.", "localhost:")
OBJECT_STORE_BYTES = 80_000_000
"""Close to the smallest size that Ray accepts; nothing large is exchanged."""
LONGEST_SCRATCH = 17
"""Longest path of the scratch folder's parent: a socket path has at most 107 characters."""
CONNECT_SECONDS = 10.0
TOKEN = Path.home() / ".ray" / "auth_token"
"""If this file exists, ``ray start`` requires its token, but clients send it only in token mode. A
cluster that requires no token ignores it."""
TOKEN_VARIABLES = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"}


def set_environment(address: str | None) -> None:
    """Must be called before Ray is imported, because that is when Ray reads its environment."""
    is_local = not address or address.startswith(LOCAL_HOSTS)
    os.environ.update(QUIET | LOOPBACK if is_local else QUIET)
    if address and (TOKEN.is_file() or os.environ.keys() & TOKEN_VARIABLES):
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def refuse_unreachable(address: str, *, option: str) -> None:
    """Fail at once if nothing listens at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(f"{option} {address}: must be HOST:PORT of a Ray cluster")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        wrong_name = "not a host name" if isinstance(error, UnicodeError) else error
        why = getattr(error, "strerror", None) or wrong_name
        raise UserError(
            f"{option} {address}: no connection ({why}); start a cluster there with "
            f"`ray start --head --port={port}`, or leave out {option}"
        ) from None


@contextmanager
def keeping_handlers() -> Iterator[None]:
    """Restore the signal handlers that Ray replaces: ours shut down cleanly."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except SystemExit as ended:
        if ended.code == signal.SIGTERM:  # raised by Ray's handler
            raise SystemExit(128 + signal.SIGTERM) from None
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def running_ray(
    address: str | None, *, cpus: int, environment: Mapping[str, str]
) -> Iterator[None]:
    """Run the block with this process as a Ray driver.

    ``address``: a running cluster; without one, Ray is started on this machine and shut down at the
    end of the block.
    """
    set_environment(address)
    os.environ.update(environment)
    import ray

    for name in ("ray", "ray.serve"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    with scratch_folder(short_folder(), "cotrunk") as folder:
        try:
            with keeping_handlers():
                if address:
                    ray.init(address=address, **quiet)
                else:
                    ray.init(
                        num_cpus=cpus,
                        include_dashboard=False,
                        object_store_memory=OBJECT_STORE_BYTES,
                        _temp_dir=str(folder),
                        **quiet,
                    )
            yield
        finally:
            with keeping_handlers():
                ray.shutdown()


def short_folder() -> Path:
    """A folder for temporary files whose path is short enough for sockets in it."""
    usual = Path(tempfile.gettempdir()).resolve()
    is_long = len(str(usual)) > LONGEST_SCRATCH and Path("/tmp").is_dir()
    return Path("/tmp") if is_long else usual


@contextmanager
def scratch_folder(folder: Path, name: str) -> Iterator[Path]:
    made = make_scratch(folder, name)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def make_scratch(folder: Path, name: str) -> Path:
    """A temporary folder with the process id in its name; deletes those of killed processes."""
    for old in folder.glob(f"{name}-*-*"):
        owner = re.fullmatch(rf"{re.escape(name)}-(\d+)-\w+", old.name)
        if owner and not is_alive(int(owner[1])):
            shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=folder))
