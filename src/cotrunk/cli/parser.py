"""The options of every command. Nothing slow is imported here, so that ``--help`` is fast."""

import argparse

from cotrunk import __version__
from cotrunk.cli.options import (
    Commands,
    Parser,
    command,
    count,
    number,
    positive,
    settings,
    several,
    which,
    whole,
)
from cotrunk.cli.serve_options import add_serve


def parser() -> argparse.ArgumentParser:
    top = Parser(
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
    _add_sweep(commands)
    _add_study(commands)
    _add_evaluate(commands)
    _add_predict(commands)
    _add_info(commands)
    _add_verify(commands)
    _add_compare(commands)
    _add_report(commands)
    _add_export(commands)
    add_serve(commands)
    _add_weights(commands)
    _add_completion(commands)
    return top


def _add_demo(commands: Commands) -> None:
    demo = command(
        commands, "demo", "train 1-bert, 3-bert and hybrid-bert on the sample data, write a report"
    )
    demo.add_argument(
        "-o", "--out", default="runs/demo", help="folder for the runs (default: %(default)s)"
    )
    settings(demo)


def _add_init(commands: Commands) -> None:
    init = command(commands, "init", "write a commented config for your files, or from a preset")
    init.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="labelled files: columns, kinds and classes are found by looking at them",
    )
    init.add_argument("--preset", help="preset, if no file is given (default: hybrid-bert)")
    init.add_argument("--list", action="store_true", help="list the presets")
    init.add_argument(
        "--data", metavar="DIR", help="folder with the CS224N files, instead of the sample data"
    )
    init.add_argument(
        "--weights", metavar="W", help="another encoder; the plan is fitted to its depth"
    )
    init.add_argument(
        "--as-reported", action="store_true", help="the report's own settings, for BERT-base"
    )
    init.add_argument("-o", "--output", metavar="FILE", help="file to write (default: run.toml)")


def _add_data_check(commands: Commands) -> None:
    data = commands.add_parser("data", help="inspect data files")
    actions = data.add_subparsers(metavar="ACTION", required=True)
    summary = "count rows, labels, lengths, duplicates and overlap in a config's files"
    check = command(actions, "check", summary, run="data check")
    check.add_argument("config", metavar="CONFIG")
    settings(check)


def _add_plan(commands: Commands) -> None:
    summary = "draw a sharing plan and count its parameters, without loading weights or data"
    plan = command(commands, "plan", summary)
    plan.add_argument(
        "config", metavar="CONFIG", nargs="?", help="without it, use the options below"
    )
    settings(plan)
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
        "--pal", metavar="SIZE", type=whole, help="projected attention layers of this size"
    )
    plan.add_argument("--pal-heads", metavar="N", type=whole, help="attention heads (default: 12)")
    plan.add_argument("--pal-who", metavar="S|I|(a+b)", help="who shares them (default: I)")
    plan.add_argument(
        "--heads", metavar="N,N,...", help="number of outputs of each task's linear head"
    )
    plan.add_argument(
        "--freeze", action="store_true", default=None, help="do not train the encoder"
    )


def _add_train(commands: Commands) -> None:
    train = command(commands, "train", "train a config and write a run folder")
    train.add_argument("config", metavar="CONFIG")
    train.add_argument(
        "-o", "--out", metavar="RUN", help="run folder (default: runs/<name of the config>)"
    )
    train.add_argument(
        "--resume", action="store_true", help="continue from the latest intact checkpoint"
    )
    train.add_argument(
        "--force", action="store_true", help="resume even if settings or data have changed"
    )
    settings(train)
    train.add_argument(
        "--dry-run", action="store_true", help="check everything and show the batches of each epoch"
    )


def _add_sweep(commands: Commands) -> None:
    summary = "train many variants of a config; repeat the command to continue"
    sweep = command(commands, "sweep", summary)
    sweep.add_argument("file", metavar="SWEEP.toml")
    sweep.add_argument("-o", "--out", metavar="DIR", required=True, help="folder for the runs")
    sweep.add_argument(
        "--engine", choices=("ray", "local"), help="default: ray if it is installed, else local"
    )
    sweep.add_argument(
        "--address", metavar="A", help="a running Ray cluster that sees the same files"
    )
    sweep.add_argument(
        "--dry-run", action="store_true", help="list the trials and the time they will take"
    )


def _add_study(commands: Commands) -> None:
    summary = "run the experiments of a report and judge its claims; repeat to continue"
    study = command(commands, "study", summary)
    study.add_argument("name", metavar="NAME", nargs="?", help="a study, or a study file")
    study.add_argument("config", metavar="CONFIG", nargs="?", help="for `study sharing`")
    study.add_argument("-o", "--out", metavar="DIR", help="folder for runs and results")
    study.add_argument("--list", action="store_true", help="list the studies")
    study.add_argument(
        "--budget",
        choices=("quick", "full"),
        default="quick",
        help="quick (default): MiniLM on two cores; full: the report's own experiment",
    )
    study.add_argument(
        "--data", metavar="DIR", help="folder with the CS224N files, instead of the sample data"
    )
    study.add_argument("--weights", metavar="W", help="another encoder")
    study.add_argument("--seeds", metavar="N", type=positive, help="number of seeds per setting")
    study.add_argument(
        "--threads", metavar="N", type=positive, default=1, help="threads of a trial (default: 1)"
    )
    study.add_argument(
        "--engine", choices=("ray", "local"), help="default: ray if it is installed, else local"
    )
    study.add_argument(
        "--address", metavar="A", help="a running Ray cluster that sees the same files"
    )
    several(study, "--only", "SWEEP", "run these sweeps of the study, and leave the others")
    several(study, "--set", "KEY=VALUE", "override settings of all trials")
    study.add_argument(
        "--dry-run", action="store_true", help="list the trials and the time they will take"
    )


def _add_evaluate(commands: Commands) -> None:
    summary = "score a trained run, or several as one system, on labelled rows"
    evaluate = command(commands, "evaluate", summary)
    evaluate.add_argument(
        "given",
        metavar="RUN_OR_FILE",
        nargs="+",
        help="runs, and labelled files to score them on (default: the files of the config)",
    )
    evaluate.add_argument(
        "--split", choices=("train", "dev", "test"), help="files of the config (default: dev)"
    )
    several(evaluate, "--task", "T", "default: all; for files, those whose columns they have")
    evaluate.add_argument(
        "--label", metavar="COLUMN", help="the label column of the files, for a single --task"
    )
    evaluate.add_argument(
        "--skip-bad-rows", action="store_true", help="skip and count bad rows instead of stopping"
    )
    evaluate.add_argument(
        "--encoding", metavar="E", help="encoding of the files (default: the task's)"
    )
    evaluate.add_argument(
        "--detail",
        action="store_true",
        help="all metrics, each class, the confusion matrix and the calibration error",
    )
    which(evaluate)
    evaluate.add_argument(
        "--int8", action="store_true", help="compare with 8-bit layers: scores and CPU time"
    )
    evaluate.add_argument(
        "--worst", metavar="N", type=count, default=0, help="show the N worst rows of each task"
    )


def _add_predict(commands: Commands) -> None:
    predict = command(commands, "predict", "predict every row of a file, for one task or all")
    predict.add_argument("folder", metavar="RUN")
    predict.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="CSV, TSV, JSONL, CoNLL or Parquet; - is standard input",
    )
    several(predict, "--task", "T", "default: all tasks whose columns are in the file")
    predict.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="output file (.csv, .tsv, .jsonl); for --format minbert a folder or a .zip",
    )
    formats = ("csv", "tsv", "jsonl", "minbert")
    predict.add_argument(
        "--format",
        choices=formats,
        help="default: by the extension of OUT; without OUT, jsonl for a JSONL file, else csv",
    )
    predict.add_argument("--encoding", metavar="E", help="encoding of FILE (default: the task's)")
    which(predict)
    predict.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="skip and count bad rows instead of stopping",
    )
    predict.add_argument(
        "--int8", action="store_true", help="8-bit layers on the CPU: faster, slightly less exact"
    )


def _add_info(commands: Commands) -> None:
    info = command(commands, "info", "show the settings, state and scores of a run")
    info.add_argument("folder", metavar="RUN")


def _add_verify(commands: Commands) -> None:
    summary = "check every file of a run against its recorded size and SHA-256"
    verify = command(commands, "verify", summary)
    verify.add_argument("folder", metavar="RUN")


def _add_compare(commands: Commands) -> None:
    summary = "compare runs: scores, differences from a baseline, cost"
    compare = command(commands, "compare", summary)
    compare.add_argument(
        "runs", metavar="RUN_OR_DIR", nargs="+", help="a run, or a folder with runs in it"
    )
    compare.add_argument(
        "--baseline", metavar="R", help="a run, or a folder of its seeds (default: the first run)"
    )
    compare.add_argument(
        "--margin",
        type=number,
        default=0.01,
        help="smallest difference of a score that matters (default: %(default)s)",
    )
    compare.add_argument("--format", choices=("markdown", "latex", "csv"))
    compare.add_argument(
        "-o", "--output", metavar="FILE", help="write to a file: .md, .tex, .csv or .json"
    )


def _add_report(commands: Commands) -> None:
    summary = "write one page about runs: verdict, scores, curves, plans, errors"
    report = command(commands, "report", summary)
    report.add_argument(
        "runs", metavar="RUN_OR_DIR", nargs="+", help="a run, or a folder with runs in it"
    )
    report.add_argument(
        "-o", "--output", metavar="FILE", default="report.html", help="default: %(default)s"
    )
    report.add_argument(
        "--baseline", metavar="R", help="show differences from this run (default: the best plan)"
    )
    report.add_argument("--title", help="default: the names of the tasks")
    report.add_argument("--svg", metavar="DIR", help="also write every chart as SVG")
    report.add_argument("--png", metavar="DIR", help="also write every chart as PNG")


def _add_export(commands: Commands) -> None:
    summary = "write a run's tasks for transformers, sentence-transformers or onnxruntime"
    export = command(commands, "export", summary)
    export.add_argument("folder", metavar="RUN")
    formats = ("transformers", "sentence-transformers", "onnx")
    export.add_argument("--to", choices=formats, required=True)
    several(export, "--task", "T", "default: all")
    export.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        required=True,
        help="new folder; with several tasks, one folder each in it (onnx: all in one graph)",
    )
    which(export)
    export.add_argument("--int8", action="store_true", help="8-bit weights, for --to onnx")
    export.add_argument(
        "--keep-lora",
        action="store_true",
        help="low-rank adapters as a peft adapter instead of merged, for --to transformers",
    )


def _add_weights(commands: Commands) -> None:
    weights = command(commands, "weights", "fetch pretrained weights, verified by hash")
    weights.add_argument("name", metavar="NAME", help="minilm, or a Hugging Face id")


def _add_completion(commands: Commands) -> None:
    summary = "print a script that completes commands and options in a shell"
    completion = command(commands, "completion", summary)
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.epilog = 'bash: add to ~/.bashrc: eval "$(cotrunk completion bash)"'
