"""Prints the tables of docs/results.md from the files in this folder: `python results/tables.py`."""

from pathlib import Path

from remem.report.tables import summary_table
from remem.runs.results import load_result

HERE = Path(__file__).parent


def table(folder: str) -> str:
    """One experiment's runs, seeds together, as Markdown."""
    results = [load_result(path) for path in sorted((HERE / folder).glob("*.json"))]
    return summary_table(results).markdown()


def main() -> None:
    for folder in sorted(path.name for path in HERE.iterdir() if path.is_dir() and list(path.glob("*.json"))):
        print(f"{folder}\n\n{table(folder)}\n")


if __name__ == "__main__":
    main()
