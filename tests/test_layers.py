"""The import table of the architecture, the length of functions and the first line of modules, read off the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import remem

SOURCE = Path(remem.__file__).parent

FOUNDATION = {"types", "registry", "seeding", "errors", "settings", "threads"}
SIBLINGS = {"data", "memory", "selection", "nets", "evaluation"}
LEARNING = FOUNDATION | SIBLINGS | {"methods"}
ACTING = LEARNING | {"episode", "policies"}
RUNNING = ACTING | {"rl", "runs", "conf"}
TABLE: dict[str, set[str]] = {
    "remem": FOUNDATION,  # the package itself: whatever is above loads on first use
    **dict.fromkeys(FOUNDATION, FOUNDATION),
    **{room: FOUNDATION | {room} for room in SIBLINGS},
    "policies": FOUNDATION | {"policies"},
    "methods": LEARNING,
    "episode": LEARNING | {"episode"},
    "rl": ACTING | {"rl"},
    "conf": set(),
    "runs": RUNNING,
    "report": RUNNING | {"report"},
    "estimator": RUNNING | {"estimator"},
    "api": RUNNING | {"api"},
    "cli": RUNNING | {"report", "estimator", "api", "cli"},
    "__main__": {"cli"},
}
WITHOUT_TORCH = FOUNDATION | {"memory", "selection", "evaluation"}
HOMES = {  # the only places, as rooms or files, that may import these
    "lightning_fabric": {"methods", "runs"},
    "matplotlib": {"report", "data/glyphs.py"},
    "plotly": {"report"},
    "gymnasium": {"rl/env.py", "__init__.py"},
    "ray": {"runs/ray.py"},
    "typer": {"cli"},
    "rich": {"cli"},
}
LONGEST_FUNCTION = 60
LONGEST_MODULE = 400


def room_of(path: Path) -> str:
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
        found += [f"{path.as_posix()}: {what}" for what in said]
    return found


def _imports(path: Path, tree: ast.Module) -> Iterator[str]:
    room = room_of(path)
    if room not in TABLE:
        yield f"the room '{room}' is not in the table"
        return
    for name in imported(tree):
        top, _, rest = name.partition(".")
        if not top:
            yield f"relative import {name}"
        elif top == "remem":
            wanted = rest.partition(".")[0]
            if wanted in TABLE and wanted != room and wanted not in TABLE[room]:
                yield f"{room} may not import {wanted}"
        elif top == "torch" and room in WITHOUT_TORCH:
            yield f"{room} may not import torch"
        elif top in HOMES and not {room, path.as_posix()} & HOMES[top]:
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


def test_the_package_keeps_every_rule() -> None:
    assert breaches(SOURCE) == []


def test_every_source_file_is_read() -> None:
    """The walk must not silently miss the package: it sees at least the rooms of the foundation and the siblings."""
    rooms = {room_of(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py")}
    assert rooms >= FOUNDATION | SIBLINGS | {"remem", "methods", "episode", "policies", "runs"}


def test_breaches_are_found(tmp_path: Path) -> None:
    made = {
        "types.py": '"""Values."""\nimport torch\n',
        "data/__init__.py": '"""Data."""\n',
        "data/bank.py": '"""Rows."""\nfrom remem.memory.store import Memory\n',
        "memory/store.py": '"""Store."""\ndef f():\n    import torch.nn\n',
        "policies/static.py": '"""Static."""\nfrom remem import data\n',
        "nets/mlp.py": '"""Net."""\nimport torch\nfrom . import heads\n',
        "methods/loop.py": '"""Loop."""\nimport remem.episode\nimport lightning_fabric\n',
        "episode.py": '"""Episode."""\nfrom lightning_fabric import Fabric\n',
        "runs/plain.py": "x = 1\n",
        "report/page.py": '"""Page."""\nimport matplotlib.pyplot\nfrom remem.cli.main import main\n',
        "cli/main.py": '"""Command."""\nimport matplotlib\nfrom remem.report.page import page\n',
        "shed/tool.py": '"""Tool."""\n',
        "seeding.py": '"""Long."""\ndef long():\n' + "    x = 1\n" * 60,
        "registry.py": '"""Longer."""\n' + "x = 1\n" * 400,
    }
    for name, text in made.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert breaches(tmp_path) == [
        "cli/main.py: matplotlib is imported outside data/glyphs.py, report",
        "data/bank.py: data may not import memory",
        "episode.py: lightning_fabric is imported outside methods, runs",
        "memory/store.py: memory may not import torch",
        "methods/loop.py: methods may not import episode",
        "nets/mlp.py: relative import .heads",
        "policies/static.py: policies may not import data",
        "registry.py: 401 lines",
        "report/page.py: report may not import cli",
        "runs/plain.py: the first line does not say what the module is",
        "seeding.py: long has 61 lines",
        "shed/tool.py: the room 'shed' is not in the table",
        "types.py: types may not import torch",
    ]
