"""The options of ``cotrunk serve``."""

from cotrunk.cli.options import Commands, command, port, positive, several, which

QUEUE_TOKENS, DEADLINE_SECONDS = 16384, 30


def add_serve(commands: Commands) -> None:
    summary = "answer all tasks of a run over HTTP, or show the runs in a folder"
    serve = command(commands, "serve", summary)
    serve.add_argument("folder", metavar="RUN", help="a run, or a folder of runs")
    serve.add_argument(
        "other", metavar="OTHER", nargs="?", help="another run, shown beside it in the playground"
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    serve.add_argument(
        "--port", type=port, default=8000, help="port; 0: any free one (default: %(default)s)"
    )
    which(serve)
    serve.add_argument("--int8", action="store_true", help="8-bit layers on the CPU")
    serve.add_argument(
        "--threads", metavar="N", type=positive, help="worker threads (default: all cores)"
    )
    serve.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the bearer token that requests must send (or set COTRUNK_TOKEN)",
    )
    several(serve, "--allow-host", "NAME", "host names to accept besides --host and localhost")
    serve.add_argument(
        "--queue",
        metavar="TOKENS",
        type=positive,
        default=QUEUE_TOKENS,
        help="tokens that may be queued; further requests get 429 (default: %(default)s)",
    )
    serve.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=positive,
        default=DEADLINE_SECONDS,
        help="time limit of a request (default: %(default)s)",
    )
    serve.add_argument(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const="",
        help="use Ray Serve on the cluster at ADDRESS, which must see the same files; "
        "without ADDRESS, on this machine",
    )
    serve.add_argument(
        "--replicas", metavar="N", type=positive, help="replicas, with --ray (default: 1)"
    )
