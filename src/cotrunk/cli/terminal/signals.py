"""Signal handlers, and messages from inside them."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread
from typing import NoReturn

AFTER_SECOND = 0.5
"""Seconds that the handlers have for an orderly exit after the second signal."""
SHOW_CURSOR = "\x1b[?25h"
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


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM or a closed terminal end this block as Ctrl-C does, with all cleanup."""
    signals = [signal.SIGTERM, *hangup()]

    def end(number: int, _frame: object) -> None:
        for each in signals:  # a second signal would interrupt the cleanup
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    with handling_signals(signals, end):
        yield


@contextmanager
def ending_at_second() -> Iterator[None]:
    """The second SIGINT or SIGTERM ends the process soon, even in the middle of a long operation.

    Python runs signal handlers only when a torch operation returns, and two signals that arrive
    before that are handled as one. So a thread reads the signals as they arrive, and gives the
    handlers half a second.
    """
    if current_thread() is not main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    Thread(target=_end_at_second, args=(reader,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # ends the thread


def _end_at_second(reader: int) -> None:
    asked = 0
    with os.fdopen(reader, "rb", buffering=0) as signals:
        while number := signals.read(1):
            asked += number[0] in (signal.SIGINT, signal.SIGTERM)
            if asked >= 2:
                time.sleep(AFTER_SECOND)
                if os.isatty(2):
                    say_at_once(SHOW_CURSOR)
                os._exit(128 + number[0])


def hangup() -> list[signal.Signals]:
    """SIGHUP, unless it is ignored, as under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [] if ignored else [signal.SIGHUP]


def leave_at_once(code: int) -> NoReturn:
    """Exit from a signal handler without waiting for threads or cleanup."""
    os._exit(code)


def say_at_once(message: str) -> None:
    """Write without buffering: a signal may arrive in the middle of a buffered write."""
    with suppress(OSError):
        os.write(2, f"{message}\n".encode())
