"""The architecture, read off the source: imports, chains, sizes of modules and functions, first lines."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import remem

SOURCE = Path(remem.__file__).parent

FOUNDATION = {"types", "action", "registry", "seeding", "errors", "settings", "threads", "events"}
FOUNDATION |= {"clock", "fences", "interrupts", "recent", "user_paths"}
SIBLINGS = {"data", "memory", "selection", "nets", "evaluation", "policies"}  # none imports another
STORED = FOUNDATION | {"storage", "codecs"}
LEARNING = STORED | SIBLINGS | {"methods"}
RUNNING = LEARNING | {"episode", "parallel", "conf", "runs"}
STUDYING = RUNNING | {"rl", "studies"}
TABLE: dict[str, set[str]] = {  # package or module -> what it may import besides itself
    "remem": FOUNDATION,  # the package itself: everything else is imported on first use
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    "storage": FOUNDATION,
    "codecs": FOUNDATION,
    "parallel": FOUNDATION,
    **dict.fromkeys(SIBLINGS, STORED),
    "methods": LEARNING,
    "episode": LEARNING,
    "conf": set(),
    "runs": RUNNING,
    "rl": RUNNING,
    "studies": RUNNING | {"rl"},
    "estimator": RUNNING,
    "report": STUDYING | {"estimator"},
    "api": STUDYING,
    "tracking": STUDYING,
    "cli": STUDYING | {"report", "tracking", "api", "estimator"},
    "__main__": {"cli"},
}
WITHOUT_TORCH = FOUNDATION | {"codecs", "memory", "selection", "evaluation", "parallel", "studies"}
HOMES = {  # the only places, packages or files, that may import these
    "lightning_fabric": {"methods", "runs", "rl"},
    "matplotlib": {"report", "data/glyphs.py"},
    "plotly": {"report"},
    "gymnasium": {"rl/env.py", "__init__.py"},
    "ray": {"parallel/ray.py"},
    "optuna": {"rl/search.py"},
    "onnx": {"runs/export.py"},
    "onnxruntime": {"runs/export.py"},
    "mlflow": {"tracking"},
    "wandb": {"tracking"},
    "tensorboard": {"tracking"},
    "typer": {"cli"},
    "rich": {"cli"},
    "safetensors": {"storage", "policies"},
}
LAYERS = {  # inside a package a module imports only modules of the lines before its own
    "storage": ("atomic limits", "event_log jsonfile tensorfile", "workdir generations pointer"),
    "parallel": ("jobs", "backend", "worker processes", "ray", "pool"),
    "codecs": ("codec table", "packing raw webp", "ycc", "reduced"),
    "memory": ("budget store", "allocation", "allocator"),
    "policies": (
        "policy static proportional fixed path rmm network agent",
        "auto coded rmm_codec",
        "learned",
        "files",
        "table",
    ),
    "runs": (
        "events heap devices renamed trees cost timing versions calibrate",  # settings as trees, devices
        "presets migrations results",  # files
        "config predict_inputs",
        "prepared model trials identity names",
        "build dry_run phase0_cache inside export",  # from settings to objects
        "writer",
        "run estimate",
        "jobs",
    ),
    "rl": (
        "settings events",
        "config feature_bank paths reinforce",
        "provenance snapshot_cache node_keeper pooled_training shared_phase0",
        "batched batched.heads",
        "batched.training",
        "batched.runs",
        "batched.nodes prefix_tree",
        "pseudo_tasks reward_log oracles trainer search",
        "learn jobs env cost image_size",
    ),
    "estimator": (
        "account arrivals episode versions events",
        "build",
        "stream guard",
        "saved settings warm_start",
        "deletion",
        "classifier",
    ),
    "studies": ("events learned_policies", "grid", "run summary cost"),
}
LONGEST_FUNCTION = 60
LONGEST_MODULE = 400
MOST_PARAMETERS = 7
ESTIMATORS = ("classifier.py",)  # scikit-learn takes an estimator's parameters from the signature of its constructor
LONGEST_CHAIN = 13  # modules, from one that nothing imports down to one that imports nothing


def package_of(path: Path) -> str:
    """The first folder or module name below the package; `remem` for the package's own __init__."""
    first = path.parts[0]
    return "remem" if first == "__init__.py" else first.removesuffix(".py")


def imported(tree: ast.Module) -> Iterator[str]:
    """Dotted names of everything that a module imports, inside functions too; a leading dot for relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (f"{node.module}." if node.module else "")
            yield from (f"{module}{alias.name}" for alias in node.names)


def breaches(source: Path) -> list[str]:
    """Every broken rule below a package folder, as `file: what`."""
    found = []
    for file in sorted(source.rglob("*.py")):
        path = file.relative_to(source)
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        said = [*_imports(path, tree), *_shape(tree, len(text.splitlines()))]
        allowed = "__init__ has" if path.name in ESTIMATORS else "nothing"
        found += [f"{path.as_posix()}: {what}" for what in said if not what.startswith(allowed)]
    return found


def _imports(path: Path, tree: ast.Module) -> Iterator[str]:
    package = package_of(path)
    if package not in TABLE:
        yield f"the package '{package}' is not in the table"
        return
    for name in imported(tree):
        top, _, rest = name.partition(".")
        if not top:
            yield f"relative import {name}"
        elif top == "remem":
            wanted = rest.partition(".")[0]
            if wanted in TABLE and wanted != package and wanted not in TABLE[package]:
                yield f"{package} may not import {wanted}"
        elif top == "torch" and package in WITHOUT_TORCH:
            yield f"{package} may not import torch"
        elif top in HOMES and not {package, path.as_posix()} & HOMES[top]:
            yield f"{top} is imported outside {', '.join(sorted(HOMES[top]))}"


def _shape(tree: ast.Module, lines: int) -> Iterator[str]:
    if not (ast.get_docstring(tree) or "").split("\n")[0].strip():
        yield "the first line does not say what the module is"
    if lines > LONGEST_MODULE:
        yield f"{lines} lines"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                yield f"{node.name} has {length} lines"
            if (count := _parameters(node.args)) > MOST_PARAMETERS:
                yield f"{node.name} has {count} parameters"


def _parameters(arguments: ast.arguments) -> int:
    named = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in named if name not in ("self", "cls")]) + sum(
        star is not None for star in (arguments.vararg, arguments.kwarg)
    )


def import_graph(source: Path) -> dict[str, set[str]]:
    """Modules of the package -> modules of the package that they import, inside functions too, but not for types."""
    modules = {_module(file, source): ast.parse(file.read_text(encoding="utf-8")) for file in source.rglob("*.py")}
    graph: dict[str, set[str]] = {}
    for module, tree in modules.items():
        hidden = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            for inner in ast.walk(node)
        }
        visible = ast.Module(
            [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) and id(n) not in hidden], []
        )
        names = set(imported(visible))
        names |= {name.rpartition(".")[0] for name in names}
        graph[module] = {name for name in names if name in modules} - {module, "remem"}
    return graph


def _module(file: Path, source: Path) -> str:
    parts = ("remem", *file.relative_to(source).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def longest_chain(graph: Mapping[str, set[str]]) -> list[str]:
    """The longest chain of imports; a cycle is an error that shows it."""
    chains: dict[str, list[str]] = {}

    def chain(module: str, path: tuple[str, ...]) -> list[str]:
        if module in path:
            raise AssertionError(f"cycle: {' -> '.join((*path[path.index(module) :], module))}")
        if module not in chains:
            below = [chain(name, (*path, module)) for name in sorted(graph[module])]
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    return max((chain(module, ()) for module in sorted(graph)), key=len)


def inner_breaches(graph: Mapping[str, set[str]], layers: Mapping[str, tuple[str, ...]] = LAYERS) -> list[str]:
    """Imports within a package that go up or sideways, and modules without a layer."""
    found = []
    for package, lines in layers.items():
        layer = {f"remem.{package}.{name}": place for place, line in enumerate(lines) for name in line.split()}
        for module in sorted(name for name in graph if name.startswith(f"remem.{package}.")):
            if module not in layer:
                found.append(f"{module} has no layer")
                continue
            inside = (name for name in sorted(graph[module]) if name in layer)
            found += [f"{module} may not import {name}" for name in inside if layer[name] >= layer[module]]
    return found


def test_the_package_keeps_every_rule() -> None:
    assert breaches(SOURCE) == []


def test_packages_keep_their_inner_layers() -> None:
    assert inner_breaches(import_graph(SOURCE)) == []


def test_import_chains_are_short_and_never_circular() -> None:
    chain = longest_chain(import_graph(SOURCE))
    assert len(chain) <= LONGEST_CHAIN, " -> ".join(chain)


def test_every_source_file_is_read() -> None:
    """The walk must not silently miss the package: it sees at least the foundation and its neighbours."""
    packages = {package_of(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py")}
    assert packages >= FOUNDATION | SIBLINGS | {"remem", "storage", "parallel", "methods", "runs", "rl", "studies"}
    assert len(import_graph(SOURCE)["remem.rl.learn"]) > 10


def write(root: Path, made: Mapping[str, str]) -> None:
    for name, text in made.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)


def test_breaches_are_found(tmp_path: Path) -> None:
    many = ", ".join("abcdefgh")
    write(
        tmp_path,
        {
            "types.py": '"""Values."""\nimport torch\n',
            "data/__init__.py": '"""Data."""\n',
            "data/bank.py": '"""Rows."""\nfrom remem.memory.store import Memory\n',
            "memory/store.py": '"""Store."""\ndef f():\n    import torch.nn\n',
            "policies/static.py": '"""Static."""\nfrom remem import data\n',
            "nets/mlp.py": '"""Net."""\nimport torch\nfrom . import heads\n',
            "methods/loop.py": '"""Loop."""\nimport remem.episode\nimport lightning_fabric\n',
            "episode.py": '"""Episode."""\nfrom lightning_fabric import Fabric\n',
            "parallel/pool.py": '"""Pool."""\nfrom remem.runs.run import run\n',
            "runs/plain.py": "x = 1\n",
            "runs/up.py": '"""Up."""\ndef f():\n    from remem.rl.trainer import PolicyTrainer\n',
            "rl/many.py": f'"""Many."""\nclass A:\n    def g(self, {many[:-3]}): ...\n    def f(self, {many}): ...\n',
            "report/page.py": '"""Page."""\nimport matplotlib.pyplot\nfrom remem.cli.main import main\n',
            "cli/main.py": '"""Command."""\nimport matplotlib\nfrom remem.report.page import page\n',
            "shed/tool.py": '"""Tool."""\n',
            "seeding.py": '"""Long."""\ndef long():\n' + "    x = 1\n" * 60,
            "registry.py": '"""Longer."""\n' + "x = 1\n" * 400,
        },
    )
    assert breaches(tmp_path) == [
        "cli/main.py: matplotlib is imported outside data/glyphs.py, report",
        "data/bank.py: data may not import memory",
        "episode.py: lightning_fabric is imported outside methods, rl, runs",
        "memory/store.py: memory may not import torch",
        "methods/loop.py: methods may not import episode",
        "nets/mlp.py: relative import .heads",
        "parallel/pool.py: parallel may not import runs",
        "policies/static.py: policies may not import data",
        "registry.py: 401 lines",
        "report/page.py: report may not import cli",
        "rl/many.py: f has 8 parameters",
        "runs/plain.py: the first line does not say what the module is",
        "runs/up.py: runs may not import rl",
        "seeding.py: long has 61 lines",
        "shed/tool.py: the package 'shed' is not in the table",
        "types.py: types may not import torch",
    ]


def test_chains_and_cycles_are_found(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.py": "from remem.b import x\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import remem.d\n",
            "b.py": "def f():\n    import remem.c\n",
            "c.py": "import json\n",
            "d.py": "import remem.c\n",
        },
    )
    graph = import_graph(tmp_path)
    assert graph == {"remem.a": {"remem.b"}, "remem.b": {"remem.c"}, "remem.c": set(), "remem.d": {"remem.c"}}
    assert longest_chain(graph) == ["remem.a", "remem.b", "remem.c"]
    with pytest.raises(AssertionError, match=r"cycle: remem\.b -> remem\.c -> remem\.b"):
        longest_chain({**graph, "remem.c": {"remem.b"}})


def test_inner_breaches_are_found() -> None:
    graph = {"remem.a.one": {"remem.a.two", "remem.b"}, "remem.a.two": {"remem.a.same"}, "remem.a.same": set[str]()}
    layers = {"a": ("one", "two same")}
    assert inner_breaches(graph, layers) == [
        "remem.a.one may not import remem.a.two",
        "remem.a.two may not import remem.a.same",
    ]
    assert inner_breaches({"remem.a.new": set()}, layers) == ["remem.a.new has no layer"]
