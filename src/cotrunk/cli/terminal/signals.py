"""Signals, and what may be said about them while something else is being said."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import current_thread, main_thread

Handler = Callable[[int, object], None]


@contextmanager
def handling_signals(signals: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Only the main thread may say who hears a signal; in another one they are left alone."""
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
    """The terminal went away; under ``nohup`` that is no reason to stop."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [] if ignored else [signal.SIGHUP]


def say_at_once(message: str) -> None:
    """Past all buffers: it may come in the middle of a write, which cannot be entered anew."""
    with suppress(OSError):
        os.write(2, f"{message}\n".encode())
