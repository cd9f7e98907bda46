"""Nothing reaches for the network unless a config names a Hugging Face id."""

import subprocess
import sys

import pytest

CUT_OFF = """
import socket, sys

def refuse(event, arguments):
    if event.startswith("socket.") and event not in ("socket.gethostname",):
        raise RuntimeError(f"the network is cut off: {event} {arguments}")

sys.addaudithook(refuse)
try:
    socket.create_connection(("127.0.0.1", 9))
except RuntimeError:
    pass
else:
    sys.exit("the network is not cut off")
from cotrunk.cli.main import main

for command in (
    ["plan", "toy.toml", "--set", "encoder.weights=minilm", "sharing.encoder=S6"],
    ["data", "check", "toy.toml"],
    ["train", "toy.toml", "--out", "run", "--set", "train.max_steps=2"],
    ["evaluate", "run"],
    ["predict", "run", "mood-dev.csv", "-o", "out.csv", "--task", "mood"],
    ["info", "run"],
):
    if main(command):
        sys.exit(f"{command} failed")
"""


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_training_evaluation_and_prediction_need_no_network(tmp_path):
    command = [sys.executable, "-c", CUT_OFF]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.csv").is_file()


def test_a_hugging_face_id_is_what_reaches_for_it(cotrunk, toy, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    said = cotrunk("train", toy, "--set", "encoder.weights=owner/model", "--out", "run")
    assert said.code == 2
    assert "owner/model" in said.err
