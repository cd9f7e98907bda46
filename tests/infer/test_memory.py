"""Memory does not grow with the number of different batch shapes."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import re
import cotrunk, torch

def megabytes():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

torch.set_num_threads(1)
with torch.inference_mode():
    torch.nn.functional.gelu(torch.randn(800, 1536))
    before = megabytes()
    for rows in range(300, 800, 10):
        torch.nn.functional.gelu(torch.randn(rows, 1536))
print(megabytes() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_operations_on_new_shapes_leave_no_memory_behind():
    """oneDNN would keep the buffers of each: 50 shapes are hundreds of megabytes."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 50
