"""``cotrunk serve`` as a user starts it; what signals do is in lines S10 and S11 of ``faults``."""

import asyncio
import os
import signal
import socket

import pytest

from cotrunk.cli.main import main
from cotrunk.serve.server import bound_socket, run_server
from faults.client import Connection
from faults.preload import shared
from faults.serving import served


def test_a_port_in_use_is_one_line_before_anything_is_loaded(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path / "no run"), "--port", str(port)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert str(port) in line
    assert "in use" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--port", "70000"], "65535"),
        (["--port", "x"], "65535"),
        (["--host", "192.0.2.1"], "not an address of this machine"),
        (["--host", "no such host"], "--host"),
        (["--host", ".x"], "--host .x: is not a host name"),
        (["--threads", "0"], "1 or more"),
        (["--token-file", "missing.txt"], "missing.txt"),
        (["--replicas", "2"], "without --ray"),
        (["--ray", "127.0.0.1"], "HOST:PORT"),
        (["--ray", "127.0.0.1:1"], "no connection"),
        (["--ray", ".x:1"], "not a host name"),
        ([], "no run"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path, capsys, options, word):
    given = options if "--port" in options else [*options, "--port", "0"]
    assert main(["serve", str(tmp_path / "no run"), *given]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert word in line


@pytest.mark.parametrize(
    "option", [["--which", "final"], ["--queue", "9"], ["--deadline", "9"], ["--threads", "2"]]
)
def test_options_of_a_model_are_refused_for_a_folder_of_runs(several_runs, capsys, option):
    assert main(["serve", str(several_runs), "--port", "0", *option]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{option[0]}: needs a run" in line


@pytest.mark.parametrize("content", ["", "two words", "caf\u00e9", "a\nb"])
def test_a_token_must_be_one_visible_word(tmp_path, capsys, content):
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")
    assert main(["serve", "run", "--port", "0", "--token-file", str(file)]) == 2
    assert "visible ASCII" in capsys.readouterr().err


@pytest.mark.slow
def test_a_signal_ends_the_services_of_both_runs(make):
    asking = make(runs=2)
    with bound_socket("127.0.0.1", 0) as bound:
        run_server(
            asking.app,
            asking.services,
            bound,
            load=list,
            started=lambda: os.kill(os.getpid(), signal.SIGTERM),
            say=print,
        )
    assert [service.is_ready for service in asking.services] == [False, False]
    assert not [
        thread
        for service in asking.services
        for thread in service._workers.threads
        if thread.is_alive()
    ]


@pytest.mark.slow
def test_a_request_whose_body_is_incomplete_does_not_hold_up_the_end(run):
    async def ask(service):
        async with Connection(service.url) as connection:
            await connection.open()
            head = ["POST /predict HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
            head += ["Content-Length: 50", "Expect: 100-continue"]
            connection.writer.write("\r\n".join([*head, "\r\n"]).encode())
            assert b" 100 " in await connection.reader.readuntil(b"\r\n\r\n")  # it waits for it
            connection.writer.write(b'{"inpu')
            service.running.send(signal.SIGTERM)
            return await connection.answer(0)

    with served(shared(), run, "--threads", 1) as service:
        answer = asyncio.run(ask(service))
        said = service.running.wait()
    assert answer.status == 503
    assert answer.json["detail"][0]["message"] == "shutting down"
    assert said.code == 0
    assert said.err.splitlines()[1:] == ["stopped"]


@pytest.mark.slow
def test_the_address_is_the_first_line_and_the_token_comes_from_a_file(run, tmp_path):
    file = tmp_path / "token"
    file.write_text("secret\n")

    async def ask(url):
        async with Connection(url) as connection:
            asked = {"inputs": [{"text": "tea"}]}
            refused = await connection.post("/predict", asked)
            answered = await connection.post("/predict", asked, authorization="Bearer secret")
        return refused.status, answered.status

    options = ["--token-file", file, "--int8", "--threads", 1]
    with served(shared(), run, *options) as service:
        assert asyncio.run(ask(service.url)) == (401, 200)
        service.running.send(signal.SIGINT)
        said = service.running.wait()
    assert said.code == 0
    assert said.out == service.url + "\n"
    assert said.is_clean
