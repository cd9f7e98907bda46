"""The options of every command. Nothing slow is imported here, so that ``--help`` is fast."""

import argparse
from typing import NoReturn, TypeAlias

from cotrunk import __version__
from cotrunk.errors import UserError

Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"


class _Parser(argparse.ArgumentParser):
    """Reports a wrong option as one line, like all other errors."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{self.prog}: {message}; see {self.prog} --help")


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="cotrunk",
        description="Multitask fine-tuning of BERT-family encoders: plan, train, score, predict.",
    )
    top.add_argument("--version", action="version", version=f"cotrunk {__version__}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_init(commands)
    _add_data_check(commands)
    _add_plan(commands)
    _add_train(commands)
    _add_evaluate(commands)
    _add_predict(commands)
    _add_info(commands)
    return top


def _add_demo(commands: Commands) -> None:
    demo = _command(commands, "demo", "train 1-bert, 3-bert and hybrid-bert on the sample data")
    demo.add_argument(
        "--out", default="runs/demo", help="folder for the runs (default: %(default)s)"
    )
    _set(demo)


def _add_init(commands: Commands) -> None:
    init = _command(commands, "init", "write a commented config to start from")
    init.add_argument("--preset", default="hybrid-bert", help="preset (default: %(default)s)")
    init.add_argument("--list", action="store_true", help="list the presets")
    init.add_argument(
        "--data", metavar="DIR", help="folder with the CS224N files, instead of the sample data"
    )
    init.add_argument("-o", "--output", metavar="FILE", help="file to write (default: run.toml)")


def _add_data_check(commands: Commands) -> None:
    data = commands.add_parser("data", help="inspect data files")
    actions = data.add_subparsers(metavar="ACTION", required=True)
    summary = "count rows, labels, lengths, duplicates and overlap in a config's files"
    check = _command(actions, "check", summary, run="data check")
    check.add_argument("config", metavar="CONFIG")
    _set(check)


def _add_plan(commands: Commands) -> None:
    summary = "draw a sharing plan and count its parameters, without loading weights or data"
    plan = _command(commands, "plan", summary)
    plan.add_argument(
        "config", metavar="CONFIG", nargs="?", help="without it, use the options below"
    )
    _set(plan)
    plan.add_argument(
        "--shape",
        metavar="NAME",
        help="size of the encoder: bert-base (default), minilm, tiny, ...",
    )
    plan.add_argument("--tasks", metavar="T,T,...", help="task names (default: sst,para,sts)")
    plan.add_argument(
        "--encoder", metavar="PLAN", help='sharing of the layers, such as "S6 I6" (default: shared)'
    )
    plan.add_argument("--embeddings", metavar="S|I|(a+b)", help="default: as the first layer")
    plan.add_argument("--pooler", metavar="S|I|(a+b)", help="default: as the last layer")
    plan.add_argument(
        "--neck", metavar="PLAN", help='layers between encoder and heads, such as "S-I-S"'
    )
    plan.add_argument(
        "--pal", metavar="SIZE", type=int, help="projected attention layers of this size"
    )
    plan.add_argument("--pal-heads", metavar="N", type=int, help="attention heads (default: 12)")
    plan.add_argument("--pal-who", metavar="S|I|(a+b)", help="who shares them (default: I)")
    plan.add_argument(
        "--heads", metavar="N,N,...", help="number of outputs of each task's linear head"
    )
    plan.add_argument(
        "--freeze", action="store_true", default=None, help="do not train the encoder"
    )


def _add_train(commands: Commands) -> None:
    train = _command(commands, "train", "train a config and write a run folder")
    train.add_argument("config", metavar="CONFIG")
    train.add_argument(
        "--out", metavar="RUN", help="run folder (default: runs/<name of the config>)"
    )
    train.add_argument(
        "--resume", action="store_true", help="continue from the latest intact checkpoint"
    )
    train.add_argument(
        "--force", action="store_true", help="resume even if settings or data have changed"
    )
    _set(train)
    train.add_argument(
        "--dry-run", action="store_true", help="check everything and show the batches of each epoch"
    )


def _add_evaluate(commands: Commands) -> None:
    evaluate = _command(commands, "evaluate", "score a trained run on labelled rows")
    evaluate.add_argument("folder", metavar="RUN")
    evaluate.add_argument("--split", choices=("train", "dev", "test"), default="dev")
    _several(evaluate, "--task", "T", "default: all")
    _which(evaluate)
    evaluate.add_argument(
        "--int8", action="store_true", help="compare with 8-bit layers: scores and CPU time"
    )
    evaluate.add_argument(
        "--worst", metavar="N", type=_count, default=0, help="show the N worst rows of each task"
    )


def _add_predict(commands: Commands) -> None:
    predict = _command(commands, "predict", "predict every row of a file, for one task or all")
    predict.add_argument("folder", metavar="RUN")
    predict.add_argument(
        "file", metavar="FILE", help="CSV, TSV, JSONL, CoNLL or Parquet; - is standard input"
    )
    _several(predict, "--task", "T", "default: all tasks whose columns are in the file")
    predict.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="output file (.csv, .tsv, .jsonl); for --format minbert a folder",
    )
    formats = ("csv", "tsv", "jsonl", "minbert")
    predict.add_argument("--format", choices=formats, help="default: by the extension of OUT")
    _which(predict)
    predict.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="skip and count bad rows instead of stopping",
    )
    predict.add_argument(
        "--int8", action="store_true", help="8-bit layers on the CPU: faster, slightly less exact"
    )


def _add_info(commands: Commands) -> None:
    info = _command(commands, "info", "show the settings, state and scores of a run")
    info.add_argument("folder", metavar="RUN")


def _set(command: argparse.ArgumentParser) -> None:
    _several(command, "--set", "KEY=VALUE", "override settings, as in --set train.epochs=1")


def _which(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--which", default="best", metavar="NAME", help="best (default), final, or best-TASK"
    )


def _several(command: argparse.ArgumentParser, name: str, metavar: str, summary: str) -> None:
    command.add_argument(
        name, nargs="+", action="extend", default=[], metavar=metavar, help=summary
    )


def _command(
    commands: Commands, name: str, summary: str, *, run: str | None = None
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
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more; found {text!r}")
    return int(text)
