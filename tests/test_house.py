"""Rules of the house that no single file can show: who may import whom, and what nobody does."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cotrunk
from cotrunk.build.checks import wrong_stages
from cotrunk.build.heads import head_plans
from cotrunk.build.tasks import tasks_of
from cotrunk.config.check import check_settings

ROOT = Path(cotrunk.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
README = Path(__file__).parents[1] / "README.md"

ORDER = [
    {"errors", "progress", "files", "formats", "late_numpy", "notebook", "numbers"},
    {"kinds"},
    {"config"},
    {"data"},
    {"model"},
    {"infer", "runs"},
    {"learn", "track", "cluster"},
    {"build"},
    {"study", "export"},
    {"serve"},
    {"cli"},
    {"__main__"},
]
"""Each imports only what stands before it, and within a folder nobody imports in a circle."""

PEERS = {"transformers", "sentence_transformers", "onnx", "onnxruntime", "peft"}
"""Libraries that exports are for; nothing else needs them."""
WEB = {"fastapi", "starlette", "uvicorn", "prometheus_client"}
"""Of the service alone; nothing else needs them."""
ONLY_INSIDE_FUNCTIONS = {"torchjd", "pyarrow", "huggingface_hub", "ray", "optuna", "mlflow", *PEERS}
NEVER = {"pickle", "yaml", "dill", "cloudpickle", "joblib", "marshal", "shelve"}


def name_of(file: Path) -> str:
    """``data.text`` for data/text.py, ``data`` for data/__init__.py."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(file): file for file in FILES}


def rank(module: str) -> int:
    top = module.partition(".")[0]
    return next(number for number, names in enumerate(ORDER) if top in names)


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that is imported, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: write imports in full"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def ours(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of every import from this package."""
    for line, name in imported(tree):
        if name.startswith("cotrunk."):
            inside = name.removeprefix("cotrunk.")
            module = inside if inside in MODULES else inside.rpartition(".")[0]
            if module:  # else a name of the package itself, such as its version
                yield line, module


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def packages(file: Path) -> set[str]:
    """All that a file imports, its own functions included, by top-level name."""
    return {name.partition(".")[0] for _, name in imported(parsed(file))}


def test_every_module_has_its_place_in_the_order():
    tops = {name.partition(".")[0] for name in MODULES} - {"__init__"}
    assert tops == set().union(*ORDER)


def test_imports_point_one_way():
    inside = {name: file for name, file in MODULES.items() if name != "__init__"}  # lazy imports
    assert not [
        f"{file}:{line}: {name} imports {module}"
        for name, file in inside.items()
        for line, module in ours(parsed(file))
        if rank(module) >= rank(name) and module.partition(".")[0] != name.partition(".")[0]
    ]


READERS_OF_SETTINGS = {"config", "build", "cli"}


def test_settings_are_read_by_build_and_the_command_line_alone():
    readers = {
        name.partition(".")[0]
        for name, file in MODULES.items()
        if any(module.partition(".")[0] == "config" for _, module in ours(parsed(file)))
    }
    assert readers == READERS_OF_SETTINGS


def test_no_modules_import_each_other_in_a_circle():
    needs = {name: {m for _, m in ours(parsed(file))} - {name} for name, file in MODULES.items()}
    del needs["__init__"]
    while needs:
        free = {name for name, others in needs.items() if not others & needs.keys()}
        assert free, f"a circle runs through {', '.join(sorted(needs))}"
        needs = {name: others for name, others in needs.items() if name not in free}


def test_importing_the_package_imports_nothing_of_it():
    for node in parsed(ROOT / "__init__.py").body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not list(ours(node))


def test_no_file_is_long():
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert not {file: length for file, length in lengths.items() if length > 400}


def test_nothing_is_imported_that_can_run_code_from_a_file():
    assert not [file for file in FILES if packages(file) & NEVER]


def test_other_libraries_are_for_exports_alone():
    assert {name.partition(".")[0] for name in MODULES if packages(MODULES[name]) & PEERS} == {
        "export"
    }


def test_libraries_of_the_web_are_for_the_service_alone():
    assert {name.partition(".")[0] for name in MODULES if packages(MODULES[name]) & WEB} == {
        "serve"
    }


def imported_early(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What is imported outside of functions."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = {
        line for node in ast.walk(tree) if isinstance(node, functions) for line, _ in imported(node)
    }
    yield from ((line, name) for line, name in imported(tree) if line not in inside)


def test_optional_and_slow_packages_are_imported_only_where_they_are_used():
    assert not [
        f"{file}:{line}: {name}"
        for file in FILES
        for line, name in imported_early(parsed(file))
        if name.partition(".")[0] in ONLY_INSIDE_FUNCTIONS
    ]


def called(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the name it goes by, such as ``torch.load``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "importlib.import_module",
    "torch.load",
    "torch.save",
    "yaml.load",
    "os.system",
}


def is_unsafe(keyword: ast.keyword) -> bool:
    may_run_code = keyword.arg in ("trust_remote_code", "allow_pickle", "shell")
    return may_run_code and ast.unparse(keyword.value) != "False"


def test_nothing_is_called_that_runs_what_it_reads():
    assert not [
        f"{file}:{call.lineno}: {name}"
        for file in FILES
        for name, call in called(parsed(file))
        if name in FORBIDDEN_CALLS or any(map(is_unsafe, call.keywords))
    ]


def test_the_rules_notice_what_they_are_there_for():
    tree = ast.parse("import torch\ntorch.load('x')\ndef f():\n    import pyarrow.parquet\n")
    assert [name for name, _ in called(tree)] == ["torch.load"]
    assert list(imported(tree)) == [(1, "torch"), (4, "pyarrow.parquet")]
    assert list(imported_early(tree)) == [(1, "torch")]
    (shell,) = ast.parse("run('ls', shell=True)").body[0].value.keywords
    assert is_unsafe(shell)
    assert rank("data.batches.text") < rank("model.sharing.network") < rank("cli")
    assert {"cli", "data.batches.text", "model.sharing.network", "runs"} <= set(MODULES)


NAMES_OF_PLACES = r"embeddings|layers|pooler|pooled_norm|neck|projected|heads"
TELLS_PLACES_APART = re.compile(
    rf"""(startswith|removeprefix)\([^)]*["']({NAMES_OF_PLACES})"""
    rf"""|(==|!=|\bin) *\(?["']({NAMES_OF_PLACES})[."']"""
    r"""|\bname\.(split\(["']\.["']\)\[|partition\(["']\.)"""
)


def test_no_place_is_told_by_its_name():
    """Who is frozen, shared, drawn or counted follows from the attributes of a place."""
    assert not [
        f"{file}: {line}"
        for name, file in MODULES.items()
        if not name.startswith("model.sharing") and name != "model.weights.rename"
        for line in file.read_text(encoding="utf-8").splitlines()
        if TELLS_PLACES_APART.search(line)
    ]


WITHOUT_TORCH = [
    "model.sharing.parameter_table",
    "model.sharing.select",
    "model.head_plan",
    "build.plan",
    "build.freezing",
    "study.compare",
]


def test_a_plan_is_made_and_counted_without_torch():
    imports = "; ".join(f"import cotrunk.{module}" for module in WITHOUT_TORCH)
    code = f"import sys; {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_readme_has_no_blanks_left_to_fill():
    assert not re.findall(r"@[A-Z]+@", README.read_text(encoding="utf-8"))


def test_the_configs_in_the_readme_are_valid():
    blocks = re.findall(r"```toml\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert blocks
    for block in blocks:
        settings = check_settings(tomllib.loads(block), place="README.md")
        tasks = tasks_of(settings)
        assert not wrong_stages(settings, tasks)
        assert head_plans(settings, tasks)
