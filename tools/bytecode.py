"""Writes the bytecode of what the commands import: ``python -m tools.bytecode``.

Packages are installed without bytecode, because compiling all of them takes minutes. Where Python
is told not to write any (PYTHONDONTWRITEBYTECODE), every command would compile all that it imports.
"""

import importlib
import pkgutil
import sys
import warnings

import cotrunk

IMPORTED_LATE = (
    "huggingface_hub", "mlflow.tracking", "onnx", "onnxruntime", "optuna", "peft", "pyarrow.csv",
    "pyarrow.parquet", "ray.serve", "ray.tune", "safetensors.torch", "scipy.optimize",
    "scipy.stats", "sentence_transformers", "tokenizers", "torchjd", "transformers",
)  # fmt: skip


def main() -> int:
    sys.dont_write_bytecode = False
    warnings.simplefilter("ignore")  # the packages' own
    own = [found.name for found in pkgutil.walk_packages(cotrunk.__path__, "cotrunk.")]
    for name in [name for name in own if not name.endswith("__main__")] + list(IMPORTED_LATE):
        importlib.import_module(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
