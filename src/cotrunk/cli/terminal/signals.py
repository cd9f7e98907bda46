"""Signal handlers, and messages from inside them."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread

Handler = Callable[[int, object], None]


@contextmanager
def handling_signals(signals: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Only the main thread can set handlers; in other threads this does nothing."""
    if current_thread() is not main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def hangup() -> list[signal.Signals]:
    """SIGHUP, unless it is ignored, as under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [] if ignored else [signal.SIGHUP]


def say_at_once(message: str) -> None:
    """Write without buffering: a signal may arrive in the middle of a buffered write."""
    with suppress(OSError):
        os.write(2, f"{message}\n".encode())
