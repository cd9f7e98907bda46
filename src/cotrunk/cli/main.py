"""The command line. Only the parser lives here; what a command needs is imported when it runs."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cotrunk import __version__
from cotrunk.cli.terminal.signals import handling_signals, say_at_once
from cotrunk.cli.terminal.streams import open_closed_ones, silence

DONE, FAILED, WRONG = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. 0 done, 1 failed at run time, 2 the user's to mend, 130/143 interrupted."""
    open_closed_ones()
    with _ended_at_once():
        arguments = parser().parse_args(argv)
        from cotrunk.cli.commands import COMMANDS
        from cotrunk.errors import UserError

    try:
        document = COMMANDS[arguments.run](arguments)
        if arguments.json:
            from cotrunk.cli.terminal.screen import spelled

            print(spelled(document))  # noqa: T201
        sys.stdout.flush()
        return DONE
    except UserError as error:
        return _fail(error.lines, WRONG, arguments)
    except BrokenPipeError:  # the reader of our output has gone, as in `cotrunk info RUN | head`
        silence(sys.stdout)
        return DONE
    except KeyboardInterrupt:
        return _fail(["interrupted"], 130, arguments)
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _fail([named], FAILED, arguments)
    except RuntimeError as error:
        return _fail([str(error)], FAILED, arguments)


@contextmanager
def _ended_at_once() -> Iterator[None]:
    """Ctrl-C while modules load: a package cut short in that may crash later, or hide it."""

    def end(number: int, _frame: object) -> None:
        say_at_once("error: interrupted")
        os._exit(128 + number)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with handling_signals(
        [signal.SIGINT] if usual else [], end
    ):  # else ignored, or somebody sees to it
        yield


def _fail(lines: Sequence[str], code: int, arguments: argparse.Namespace) -> int:
    if arguments.debug:
        raise
    for line in lines:
        try:
            print(f"error: {line}", file=sys.stderr)  # noqa: T201
        except OSError:  # nobody reads it; the code still says it
            silence(sys.stderr)
    return code


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="cotrunk",
        description="Several text tasks, one shared trunk: plan what is shared, train it, use it.",
    )
    top.add_argument("--version", action="version", version=f"cotrunk {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    demo = _command(commands, "demo", "train 1-bert, 3-bert and hybrid-bert on the sample data")
    demo.add_argument(
        "--out", default="runs/demo", help="folder for the runs (default: %(default)s)"
    )
    _several(demo, "--set", "KEY=VALUE", "change settings, as in `train`")

    init = _command(commands, "init", "write a commented config to start from")
    init.add_argument("--preset", default="hybrid-bert", help="which one (default: %(default)s)")
    init.add_argument("--list", action="store_true", help="list the presets")
    init.add_argument(
        "--data", metavar="DIR", help="folder with the course's files, instead of the sample data"
    )
    init.add_argument(
        "-o", "--output", metavar="FILE", help="where to write it (default: run.toml)"
    )

    data = commands.add_parser("data", help="look at data files")
    actions = data.add_subparsers(metavar="ACTION", required=True)
    check = _command(
        actions,
        "check",
        "rows, labels, lengths, duplicates, overlap of a config's files",
        run="data check",
    )
    check.add_argument("config", metavar="CONFIG")
    _several(check, "--set", "KEY=VALUE", "change settings, as in `train`")

    plan = _command(
        commands, "plan", "count parameters and draw who owns what, without weights or data"
    )
    plan.add_argument(
        "config", metavar="CONFIG", nargs="?", help="a config; or give the options below"
    )
    _several(plan, "--set", "KEY=VALUE", "change settings of the config, as in `train`")
    plan.add_argument(
        "--shape", metavar="NAME", help="bert-base, minilm, tiny... (default: bert-base)"
    )
    plan.add_argument("--tasks", metavar="T,T,...", help="their names (default: sst,para,sts)")
    plan.add_argument("--encoder", metavar="PLAN", help='such as "S6 I6" (default: all shared)')
    plan.add_argument("--embeddings", metavar="S|I|(a+b)", help="default: as the first layer")
    plan.add_argument("--pooler", metavar="S|I|(a+b)", help="default: as the last layer")
    plan.add_argument("--neck", metavar="PLAN", help='such as "S-I-S"')
    plan.add_argument(
        "--pal", metavar="SIZE", type=int, help="projected attention layers of this size"
    )
    plan.add_argument("--pal-heads", metavar="N", type=int, help="default: 12")
    plan.add_argument("--pal-who", metavar="S|I|(a+b)", help="default: I")
    plan.add_argument("--heads", metavar="N,N,...", help="outputs of a linear head for each task")
    plan.add_argument(
        "--freeze", action="store_true", default=None, help="the encoder is not trained"
    )

    train = _command(commands, "train", "train a config into a run folder")
    train.add_argument("config", metavar="CONFIG")
    train.add_argument(
        "--out", metavar="RUN", help="the run folder (default: runs/<name of the config>)"
    )
    train.add_argument(
        "--resume", action="store_true", help="go on from the latest verified checkpoint"
    )
    train.add_argument(
        "--force", action="store_true", help="resume although settings or data have changed"
    )
    _several(train, "--set", "KEY=VALUE", "change settings")
    train.add_argument("--dry-run", action="store_true", help="say what would be trained, and stop")

    evaluate = _command(commands, "evaluate", "score a trained run on labelled rows")
    evaluate.add_argument("folder", metavar="RUN")
    evaluate.add_argument("--split", choices=("train", "dev", "test"), default="dev")
    _several(evaluate, "--task", "T", "default: all")
    _which(evaluate)
    evaluate.add_argument(
        "--int8", action="store_true", help="also with 8-bit layers: what is lost, what is gained"
    )
    evaluate.add_argument(
        "--worst", metavar="N", type=_count, default=0, help="also the N most wrong rows of a task"
    )

    predict = _command(commands, "predict", "answer for every row of a file, with one task or all")
    predict.add_argument("folder", metavar="RUN")
    predict.add_argument(
        "file", metavar="FILE", help="CSV, TSV, JSONL or Parquet; - is standard input"
    )
    _several(predict, "--task", "T", "default: all whose columns the file has")
    predict.add_argument(
        "-o", "--output", metavar="OUT", help="a file (.csv, .tsv, .jsonl); with minbert a folder"
    )
    predict.add_argument(
        "--format", choices=("csv", "tsv", "jsonl", "minbert"), help="default: by the name of OUT"
    )
    _which(predict)
    predict.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="give them no answer, and count them; bad for all: left out",
    )
    predict.add_argument(
        "--int8", action="store_true", help="8-bit layers, on the CPU: faster, a little rougher"
    )

    info = _command(commands, "info", "what a run is and how it went")
    info.add_argument("folder", metavar="RUN")
    return top


def _which(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--which", default="best", metavar="NAME", help="best (default), final, or best-TASK"
    )


def _several(command: argparse.ArgumentParser, name: str, metavar: str, summary: str) -> None:
    command.add_argument(
        name, nargs="+", action="extend", default=[], metavar=metavar, help=summary
    )


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    summary: str,
    *,
    run: str | None = None,
) -> argparse.ArgumentParser:
    made = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    made.set_defaults(run=run or name)
    return made


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"give a number, 0 or more; found {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
