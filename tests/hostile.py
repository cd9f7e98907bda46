"""Files made to do harm: a pickle that acts when opened, safetensors that lie."""

import json
import os
import struct


class Bomb:
    """Unpickled, it makes a folder: the sentinel tells that it went off."""

    def __init__(self, sentinel):
        self.sentinel = sentinel

    def __reduce__(self):
        return (os.mkdir, (str(self.sentinel),))


def crafted(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(shape=(1,), offsets=(0, 4), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}
