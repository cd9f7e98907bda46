"""Counters and histograms of a service, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class Metrics:
    """A registry of its own, so that several services can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "cotrunk_requests",
            "Requests by path and status.",
            ["path", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "cotrunk_request_seconds",
            "Time from the request headers to the response, by path.",
            ["path"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.rows = Counter("cotrunk_rows", "Rows answered.", registry=self.registry)
        self.batch_tokens = Histogram(
            "cotrunk_batch_tokens", "Tokens of a batch.", buckets=TOKENS, registry=self.registry
        )
        self.waiting = Gauge("cotrunk_waiting_tokens", "Queued tokens.", registry=self.registry)
        self.reloads = Counter(
            "cotrunk_reloads", "Reloads by outcome.", ["outcome"], registry=self.registry
        )

    def text(self) -> bytes:
        found: bytes = generate_latest(self.registry)
        return found
