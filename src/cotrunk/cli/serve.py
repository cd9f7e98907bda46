"""``cotrunk serve``: a service that answers all tasks of a run, or pages about many runs."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cotrunk.cli.report import report_writer
from cotrunk.cli.serve_options import DEADLINE_SECONDS, QUEUE_TOKENS
from cotrunk.cli.terminal.output import Document, note_unfinished, say
from cotrunk.cli.terminal.signals import terminable
from cotrunk.cluster import refuse_unreachable
from cotrunk.errors import UserError
from cotrunk.study.records import find_runs

if TYPE_CHECKING:
    from cotrunk.build.trained_model import TrainedModel
    from cotrunk.serve.guard import Rules
    from cotrunk.serve.server import App
    from cotrunk.serve.service import Service

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")
TOKEN_VARIABLE = "COTRUNK_TOKEN"


def serve(arguments: Namespace) -> Document:
    """The first line on standard output is the address; all else goes to standard error."""
    _refuse_missing()
    if arguments.replicas is not None and arguments.ray is None:
        raise UserError("--replicas: has no effect without --ray")
    token = _token(arguments)
    of_many = _is_folder_of_runs(Path(arguments.folder))
    if of_many:
        _refuse_options(arguments)
    if arguments.ray is not None and arguments.other:
        raise UserError("OTHER: --ray serves a single run; remove it")
    if arguments.ray is None:
        _serve_here(arguments, token, _runs if of_many else _run)
    else:
        _serve_on_ray(arguments, token)
    say("stopped")
    return {}


@dataclass(frozen=True)
class _Served:
    """What the server runs; without ``services`` it only shows pages."""

    app: "App"
    services: "tuple[Service, ...]" = ()
    load: "Callable[[], Sequence[TrainedModel]]" = tuple


def _serve_here(
    arguments: Namespace, token: str | None, make: "Callable[[Namespace, Rules], _Served]"
) -> None:
    from cotrunk.serve.server import address_of, bound_socket, is_loopback, run_server

    with bound_socket(arguments.host, arguments.port) as bound:
        rules = _rules(arguments, token, is_loopback=is_loopback(bound))
        served = make(arguments, rules)
        run_server(
            served.app,
            served.services,
            bound,
            load=served.load,
            started=lambda: _announce(address_of(bound), arguments),
            say=say,
        )


def _is_folder_of_runs(folder: Path) -> bool:
    return folder.is_dir() and folder not in find_runs([folder])


def _refuse_options(arguments: Namespace) -> None:
    """Options that need a single run."""
    given = {
        "--int8": arguments.int8,
        "--threads": arguments.threads,
        "--which": arguments.which != "best",
        "--queue": arguments.queue != QUEUE_TOKENS,
        "--deadline": arguments.deadline != DEADLINE_SECONDS,
        "--ray": arguments.ray is not None,
        "OTHER": arguments.other,
    }
    if wrong := [name for name, value in given.items() if value]:
        raise UserError(f"{wrong[0]}: needs a run, but {arguments.folder} is a folder of runs")


def _runs(arguments: Namespace, rules: "Rules") -> _Served:
    """Pages about the runs in a folder."""
    report_writer()  # raises if packages are missing, and says what to install
    from cotrunk.serve.runs_app import create_runs_app

    return _Served(create_runs_app(Path(arguments.folder), rules=rules))


def _run(arguments: Namespace, rules: "Rules") -> _Served:
    """The answers of a run, and a page to try them, beside those of another run."""
    folders = [Path(folder) for folder in (arguments.folder, arguments.other) if folder]
    for folder in folders:
        note_unfinished(folder, arguments.which)
    models = [_load(arguments, folder) for folder in folders]
    from cotrunk.serve.app import create_app
    from cotrunk.serve.metrics import Metrics
    from cotrunk.serve.page.playground import pages_of
    from cotrunk.serve.service import Service

    metrics = Metrics()
    services = tuple(
        Service(
            model,
            threads=arguments.threads,
            queue_tokens=arguments.queue,
            deadline=arguments.deadline,
            metrics=metrics,
        )
        for model in models
    )

    def load_again() -> "list[TrainedModel]":
        for folder in folders:
            _refuse_damaged(folder)
        return [_load(arguments, folder) for folder in folders]

    app = create_app(services[0], rules=rules, more=pages_of(*services))
    return _Served(app, services, load_again)


def _serve_on_ray(arguments: Namespace, token: str | None) -> None:
    from cotrunk.serve.on_ray import Replica, manifest_of, refuse_missing_ray, serve_on_ray
    from cotrunk.serve.server import bound_socket, is_loopback

    refuse_missing_ray()
    if arguments.ray:
        refuse_unreachable(arguments.ray, option="--ray")
    with bound_socket(arguments.host, arguments.port) as bound:
        rules = _rules(arguments, token, is_loopback=is_loopback(bound))
        port = bound.getsockname()[1]
    folder = Path(arguments.folder).resolve()
    note_unfinished(folder, arguments.which)
    _load(arguments, folder)  # so that a run that cannot be loaded is reported before Ray starts
    replica = Replica(
        folder=folder,
        which=arguments.which,
        int8=arguments.int8,
        threads=arguments.threads or 1,
        queue_tokens=arguments.queue,
        deadline=arguments.deadline,
        rules=rules,
        sha256=manifest_of(folder, arguments.which),
    )
    with terminable():  # Ray takes seconds to start, and leaves processes if it is killed then
        serve_on_ray(
            replica,
            address=arguments.ray,
            replicas=arguments.replicas or 1,
            host=arguments.host,
            port=port,
            started=lambda address: _announce(address, arguments),
            say=say,
        )


def _announce(address: str, arguments: Namespace) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()
    say(f"serving {arguments.folder} at {address}; Ctrl-C stops")


def _refuse_missing() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(
            f"serve needs the package {missing[0].replace('_', '-')}, which is not installed; "
            'run: pip install "cotrunk[serve]"'
        )


def _token(arguments: Namespace) -> str | None:
    """From a file or the environment: every process can read the command line."""
    if arguments.token_file is None:
        given, place = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
        if given is None:
            return None
    else:
        place = f"--token-file {arguments.token_file}"
        try:
            given = Path(arguments.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "is not UTF-8 text"
            raise UserError(f"{place}: cannot be read: {why}") from None
    if not given or not given.isascii() or not given.isprintable() or " " in given:
        raise UserError(f"{place}: must be one line of visible ASCII characters, without blanks")
    return given


def _rules(arguments: Namespace, token: str | None, *, is_loopback: bool) -> "Rules":
    from cotrunk.serve.guard import Rules
    from cotrunk.serve.schemas import MAX_BODY_BYTES

    if not is_loopback and token is None:
        say(
            f"warning: anyone who reaches {arguments.host} can use this service; set a token with "
            f"--token-file or {TOKEN_VARIABLE}"
        )
    return Rules(
        hosts=frozenset(name.lower() for name in (*arguments.allow_host, arguments.host)),
        any_address=not is_loopback,
        token=token,
        max_body=MAX_BODY_BYTES,
    )


def _load(arguments: Namespace, folder: Path) -> "TrainedModel":
    from cotrunk.build.trained_model import load_trained

    model = load_trained(folder, which=arguments.which, int8=arguments.int8)
    if not any(task.labels.can_answer for task in model.tasks.values()):
        raise UserError(f"{folder}: none of the run's tasks makes predictions")
    return model


def _refuse_damaged(folder: Path) -> None:
    """Checks that every file of a run matches its recorded hash."""
    from cotrunk.runs.verify import verify

    if damaged := verify(folder).damaged:
        raise UserError(f"{folder / damaged[0].file}: {damaged[0].why}")
