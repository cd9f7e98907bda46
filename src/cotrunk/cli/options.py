"""What the options of all commands have in common."""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn, TypeAlias

from cotrunk.errors import UserError, did_you_mean

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


INVALID_CHOICE = re.compile(r"(.+): invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
COMMANDS_ELSEWHERE = {"fit": "train", "finetune": "train", "test": "evaluate", "score": "evaluate"}


class Parser(argparse.ArgumentParser):
    """Reports a wrong option as one line, like all other errors."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """A command refuses an unknown option, and suggests the most similar one."""
        found, unknown = super().parse_known_args(args, namespace)
        unknown = self._without_late(found, unknown)
        if unknown and self._subparsers is None:
            options = [name for action in self._actions for name in action.option_strings]
            hint = did_you_mean(unknown[0].partition("=")[0], options)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _without_late(self, found: argparse.Namespace, unknown: list[str]) -> list[str]:
        """What is left of ``unknown`` without optional arguments that follow an option.

        argparse leaves them empty as soon as it meets an option.
        """
        left = list(unknown)
        for action in self._actions:
            is_empty = action.nargs == "?" and getattr(found, action.dest, None) is None
            if left and not action.option_strings and is_empty and _is_value(left[0]):
                setattr(found, action.dest, left.pop(0))
        return left

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ") if ":" in message else message
        if match := INVALID_CHOICE.fullmatch(message):
            message = _wrong_choice(*match.groups())
        help_ = f"see {self.prog} --help"
        end = f" ({help_})" if message.endswith("?") else f"; {help_}"
        raise UserError(f"{self.prog}: {message}{end}")


def _is_value(text: str) -> bool:
    return text == "-" or not text.startswith("-")


def _wrong_choice(name: str, found: str, listed: str) -> str:
    known = [choice.strip(" '") for choice in listed.split(",")]
    elsewhere = COMMANDS_ELSEWHERE.get(found)
    starting = [choice for choice in known if len(found) > 1 and choice.startswith(found)]
    meant = [elsewhere] if elsewhere in known else starting
    hint = f"; did you mean {meant[0]!r}?" if meant else did_you_mean(found, known)
    return f"{name}: must be one of {', '.join(known)}; found {found!r}{hint}"


def settings(command: argparse.ArgumentParser) -> None:
    several(command, "--set", "KEY=VALUE", "override settings, as in --set train.epochs=1")
    several(command, "--unset", "KEY", "remove settings or tables, as in --unset tasks.para")


def which(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--which", default="best", metavar="NAME", help="best (default), final, or best-TASK"
    )


def several(command: argparse.ArgumentParser, name: str, metavar: str, summary: str) -> None:
    command.add_argument(
        name, nargs="+", action="extend", default=[], metavar=metavar, help=summary
    )


def command(
    commands: Commands, name: str, summary: str, *, run: str | None = None
) -> argparse.ArgumentParser:
    made = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--debug", action="store_true", help="show the traceback of an error")
    made.set_defaults(run=run or name)
    return made


def count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more; found {text!r}")
    return int(text)


def port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 65535; found {text!r}")
    return int(text)


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number; found {text!r}") from None


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number; found {text!r}") from None


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a whole number, 1 or more; found {text!r}")
    return int(text)
