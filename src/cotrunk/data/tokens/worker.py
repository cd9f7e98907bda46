"""A worker process: encodes the texts it is sent until the pipe is closed."""

import os
import sys

from tokenizers import Tokenizer

from cotrunk.data.tokens.encoded import BETWEEN_TEXTS, encode, receive
from cotrunk.data.tokens.tokenise import Tokeniser


def main() -> None:
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that nothing printed here mixes with the answers
    try:
        texts_per_row, words = map(int, receive(source).split())
        tokenise = Tokeniser(Tokenizer.from_str(receive(source).decode()))
        while True:
            texts = receive(source).decode().split(BETWEEN_TEXTS)
            encode(tokenise, texts, texts_per_row, words=bool(words)).send(answers)
            answers.flush()
    except (EOFError, BrokenPipeError):  # no more work, or the parent has exited
        os._exit(0)
