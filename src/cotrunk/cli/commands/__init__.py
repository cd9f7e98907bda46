"""What each command does: print for people, return a document for programs."""

from cotrunk.cli.commands.looking import data_check, info, init, plan
from cotrunk.cli.commands.training import demo, train
from cotrunk.cli.commands.using import evaluate, predict

COMMANDS = {
    "demo": demo,
    "init": init,
    "data check": data_check,
    "plan": plan,
    "train": train,
    "evaluate": evaluate,
    "predict": predict,
    "info": info,
}
