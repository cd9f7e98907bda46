"""``cotrunk COMMAND``: runs one command, prints errors as single lines, returns an exit code."""

import os
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from cotrunk.cli.terminal.signals import handling_signals, say_at_once
from cotrunk.cli.terminal.streams import reopen_closed_streams, silence, write_utf8
from cotrunk.errors import UserError, printable

DONE, FAILED, WRONG = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """0: done, 1: failed at run time, 2: the user must correct something, 130/143: interrupted."""
    reopen_closed_streams()
    write_utf8()
    # Looking for plugins would read the metadata of every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = Namespace(debug=False)
    try:
        with _exiting_on_interrupt():
            from cotrunk.cli.parser import parser

            arguments = parser().parse_args(argv)
            _refuse_early(arguments)
            run = _command(arguments.run)
        document = run(arguments)
        if arguments.json:
            from cotrunk.cli.terminal.output import print_json

            print_json(document)
        sys.stdout.flush()
        return FAILED if _is_failed(document) else DONE
    except UserError as error:
        return _fail(error.lines, WRONG, arguments)
    except BrokenPipeError:  # the reader of our output is gone, as in `cotrunk info RUN | head`
        silence(sys.stdout)
        return DONE
    except KeyboardInterrupt:
        return _fail(["interrupted"], 130, arguments)
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _fail([named], FAILED, arguments)
    except RuntimeError as error:
        return _fail([str(error)], FAILED, arguments)


def _command(name: str) -> Callable[[Namespace], object]:
    """The function of a command; its module is imported only here, because that is slow."""
    match name:
        case "demo":
            from cotrunk.cli.demo import demo as run
        case "init":
            from cotrunk.cli.init import init as run
        case "data check":
            from cotrunk.cli.data_check import data_check as run
        case "plan":
            from cotrunk.cli.plan import plan as run
        case "train":
            from cotrunk.cli.train import train as run
        case "sweep":
            from cotrunk.cli.sweep import sweep as run
        case "study":
            from cotrunk.cli.study import study as run
        case "evaluate":
            from cotrunk.cli.evaluate import evaluate as run
        case "predict":
            from cotrunk.cli.predict import predict as run
        case "verify":
            from cotrunk.cli.verify import verify as run
        case "info":
            from cotrunk.cli.info import info as run
        case "compare":
            from cotrunk.cli.compare import compare as run
        case "export":
            from cotrunk.cli.export import export_run as run
        case "serve":
            from cotrunk.cli.serve import serve as run
        case "report":
            from cotrunk.cli.report import report as run
        case "weights":
            from cotrunk.cli.weights import weights as run
        case "completion":
            from cotrunk.cli.completion import completion as run
    return run


def _refuse_early(arguments: Namespace) -> None:
    """A run that another process is writing to: before torch is imported, which takes seconds."""
    if arguments.run == "train" and not arguments.dry_run:
        from cotrunk.cli.outputs import run_folder
        from cotrunk.runs.lock import refuse_locked

        refuse_locked(run_folder(arguments))


def _is_failed(document: object) -> bool:
    from cotrunk.cli.terminal.output import Failed

    return isinstance(document, Failed)


@contextmanager
def _exiting_on_interrupt() -> Iterator[None]:
    """Exit on Ctrl-C while modules load: a partly imported package may crash later."""

    def end(number: int, _frame: object) -> None:
        say_at_once("error: interrupted")
        os._exit(128 + number)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    # Otherwise the signal is ignored, or the calling program handles it.
    with handling_signals([signal.SIGINT] if usual else [], end):
        yield


def _fail(lines: Sequence[str], code: int, arguments: Namespace) -> int:
    if arguments.debug:
        raise
    for line in lines:
        try:
            print(f"error: {printable(line)}", file=sys.stderr)  # noqa: T201
        except OSError:  # nobody reads standard error; the exit code remains
            silence(sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
