"""inputs.py, sheet.py and paper_tables.py: five formats by hand, valid LaTeX, the paper's layouts, empty cells."""

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from remem.errors import InputError
from remem.report.groups import group_runs
from remem.report.inputs import read_runs
from remem.report.paper_tables import paper_table_1, paper_table_2
from remem.report.sheet import FORMATS, Column, Sheet, escape_latex
from remem.report.summary import summary_sheet
from remem.runs.results import RunResult, Spread, save_result
from report_factories import make_run

RESULTS = Path(__file__).parents[2] / "results"
SHEET = Sheet(
    (
        Column(("name",), "words"),
        Column(("runs",), "count"),
        Column(("CIFAR-100", "N=5")),
        Column(("gain",), "difference"),
    ),
    (
        ("a_1 & 50%", 2, Spread(mean=0.5, half_width=0.0125), None),
        ("  w/ RMM", 1, Spread(mean=0.6, half_width=None), Spread(mean=0.1, half_width=0.02)),
    ),
    blocks=frozenset({1}),
    notes=("a note: 5 %",),
)  # fmt: skip
EXPECTED = {
    "text": """\
name       runs  CIFAR-100 N=5           gain
---------  ----  -------------  -------------
a_1 & 50%     2   50.00 ± 1.25              -
---------  ----  -------------  -------------
  w/ RMM      1          60.00  +10.00 ± 2.00

a note: 5 %""",
    "md": """\
| name | runs | CIFAR-100 N=5 | gain |
| :-- | --: | --: | --: |
| a_1 & 50% | 2 | 50.00 ± 1.25 | - |
|   w/ RMM | 1 | 60.00 | +10.00 ± 2.00 |

- a note: 5 %""",
    "latex": r"""% needs \usepackage{booktabs}
\begin{tabular}{lrrr}
\toprule
 &  & \multicolumn{1}{c}{CIFAR-100} &  \\
\cmidrule(lr){3-3}
name & runs & N=5 & gain \\
\midrule
a\_1 \& 50\% & 2 & $50.00 \pm 1.25$ & -- \\
\midrule
\quad w/ RMM & 1 & $60.00$ & $+10.00 \pm 2.00$ \\
\bottomrule
\end{tabular}
% a note: 5 %""",
    "csv": """\
name,runs,CIFAR-100 N=5,CIFAR-100 N=5 ±,gain,gain ±
a_1 & 50%,2,50.0000,1.2500,,
w/ RMM,1,60.0000,,10.0000,2.0000""",
}


@pytest.mark.parametrize("form", EXPECTED)
def test_a_sheet_in_every_format(form: str) -> None:
    assert FORMATS[form](SHEET) == EXPECTED[form]


def test_a_sheet_as_json_has_fractions_and_null() -> None:
    assert json.loads(FORMATS["json"](SHEET)) == {
        "columns": ["name", "runs", "CIFAR-100 N=5", "gain"],
        "rows": [
            {"name": "a_1 & 50%", "runs": 2, "CIFAR-100 N=5": {"mean": 0.5, "half_width": 0.0125}, "gain": None},
            {
                "name": "w/ RMM",
                "runs": 1,
                "CIFAR-100 N=5": {"mean": 0.6, "half_width": None},
                "gain": {"mean": 0.1, "half_width": 0.02},
            },
        ],
        "notes": ["a note: 5 %"],
    }


def columns_of(line: str) -> int:
    """How many columns a line of a tabular fills."""
    joined = [int(width) for width in re.findall(r"\\multicolumn\{(\d+)\}", line)]
    return len(re.findall(r"(?<!\\)&", line)) + 1 + sum(joined) - len(joined)


def require_valid(latex: str) -> None:
    """Balanced braces and environments, and as many columns in every row as were declared."""
    code = "\n".join(re.sub(r"(?<!\\)%.*", "", line) for line in latex.splitlines())
    assert len(re.findall(r"(?<!\\)\{", code)) == len(re.findall(r"(?<!\\)\}", code))
    assert re.findall(r"\\(begin|end)\{(\w+)\}", code) == [("begin", "tabular"), ("end", "tabular")]
    declared = re.search(r"\\begin\{tabular\}\{(\w+)\}", code)
    assert declared is not None
    rows = [line for line in code.splitlines() if line.rstrip().endswith(r"\\")]
    assert {columns_of(row) for row in rows} == {len(declared[1])}
    assert len(re.findall(r"(?<!\\)\$", code)) % 2 == 0


def policy_run(policy: str, accuracies: Sequence[float], facts: dict[str, Any] | None = None, **more: Any) -> RunResult:
    scenario = {"phases": 5} | more.pop("scenario", {})
    run = make_run(
        more.pop("method", "pod-aanets"), policy, accuracies, data={"name": "cifar100"}, scenario=scenario, **more
    )
    return run if facts is None else run.model_copy(update={"policy": facts})


def learned(kind: str = "phase0", data: str = "cifar100", levels: int = 2) -> dict[str, Any]:
    return {"kind": "two-level", "levels": levels, "source": {"kind": kind, "data": data}}


ALL = [
    policy_run("static", [0.6, 0.4]),
    policy_run("static", [0.62, 0.44], seed=1),
    policy_run("rmm-one-level-learned", [0.6, 0.41], learned(levels=1)),
    policy_run("rmm-learned", [0.6, 0.5], learned()),
    policy_run("rmm-learned", [0.62, 0.5], learned(), seed=1),
    policy_run("rmm", [0.6, 0.45], learned(data="glyphs")),
    policy_run("rmm-upper-bound", [0.6, 0.6], learned("target"), oracle=True),
    policy_run("crossval-fixed", [0.6, 0.42], {"kind": "fixed", "shares": []}, oracle=True),
    policy_run("fixed-0.6", [0.6, 0.99]),
]


def test_table_1_has_the_papers_rows_and_leaves_cells_without_runs_empty() -> None:
    sheet = paper_table_1([*ALL, policy_run("static", [0.5, 0.3], method="finetune")])
    assert [row[0] for row in sheet.rows] == [
        "LwF", "iCaRL", "LUCIR", "Mnemonics", "PODNet", "LUCIR-AANets", "  w/ RMM",
        "POD-AANets", "  w/ RMM", "  w/ RMM (transferred)", "finetune",
    ]  # fmt: skip
    assert [column.heads for column in sheet.columns[1:]] == [("CIFAR-100", f"N={n}") for n in (5, 10, 25)]
    table = sheet.table()
    # Averages 0.50 and 0.53: mean 0.515, half width 12.706 x 0.0212 / sqrt(2) = 0.1906.
    assert table.rows[7] == ("POD-AANets", "51.50 ± 19.06", "-", "-")
    assert table.rows[8] == ("  w/ RMM", "55.50 ± 6.35", "-", "-")
    assert all(row[1:] == ("-", "-", "-") for row in table.rows[:7])
    assert sheet.blocks == {5, 7, 10}
    assert any(note.startswith("left out") and "fixed-0.6" in note for note in sheet.notes)


def test_table_2_tells_policies_apart_by_where_they_come_from_and_marks_oracles() -> None:
    sheet = paper_table_2(ALL)
    rows = {(row[0], row[2]): row[3:5] for row in sheet.table().rows}
    assert rows == {
        ("1", "BaseRow"): ("51.50 ± 19.06", "42.00 ± 25.41"),
        ("2", "One-level RL"): ("50.50", "41.00"),
        ("3", "Two-level RL"): ("55.50 ± 6.35", "50.00 ± 0.00"),
        # Averages gain 0.05 and 0.03, last accuracies 0.10 and 0.06.
        ("", "margin"): ("+2.50", "+5.00"),
        ("4", "Two-level RL (T.P.)"): ("52.50", "45.00"),
        ("5", "UpperBound RL (oracle)"): ("60.00", "60.00"),
        ("6", "CrossVal Fixed (oracle)"): ("51.00", "42.00"),
    }
    assert [column.heads for column in sheet.columns[3:5]] == [("CIFAR-100", "N=5", word) for word in ("Avg", "Last")]
    assert sheet.table().rows[3][2:5] == ("margin", "+4.00 ± 12.71", "+8.00 ± 25.41")
    assert "oracle: it saw what no honest run may keep or see" in sheet.notes


def test_runs_of_different_settings_never_share_a_cell() -> None:
    with pytest.raises(
        InputError, match=r"POD-AANets, CIFAR-100 N=5, BaseRow: runs differ in train.epochs; expected one"
    ):
        paper_table_1([ALL[0], policy_run("static", [0.6, 0.4], train={"epochs": 9})])
    with pytest.raises(InputError, match="no run for a table of the paper"):
        paper_table_2([ALL[-1]])


@pytest.mark.parametrize("make", [summary_sheet, paper_table_1, paper_table_2])
def test_latex_is_valid_whatever_names_contain(make: Any, tmp_path: Path) -> None:
    odd = make_run("icarl", "static", [0.8, 0.6], data={"name": r"folder:a_b&c%d$e#f{g}~^\h<i>"})
    latex = "\n\n".join(FORMATS["latex"](make(runs)) for runs in (ALL, [odd]))
    for part in latex.split("\n\n"):
        require_valid(part)
    if shutil.which("pdflatex") is None:
        pytest.skip("parsed, but not compiled: no pdflatex here")
    head = "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "table.tex").write_text(f"{head}{latex}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=batchmode", "table.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert made.returncode == 0, (tmp_path / "table.log").read_text(errors="replace")[-2000:]


def test_escapes() -> None:
    assert escape_latex("a_b\nc\\d") == r"a\_b c\textbackslash{}d"


def test_stored_results_in_the_papers_layouts() -> None:
    runs = [run.result for run in read_runs([RESULTS / "studies" / "cifar100-methods"])]
    table = paper_table_1(runs).table()
    assert table.header[1:] == ("CIFAR-100, 30 classes N=3",)
    [lucir] = [run for run in runs if run.method_name == "lucir"]
    assert {row[0]: row[1] for row in table.rows}["LUCIR"] == f"{100 * lucir.average_accuracy:.2f}"
    glyphs = [run.result for run in read_runs([RESULTS / "studies" / "glyphs-policies"])]
    rows = {row[2]: row for row in paper_table_2(glyphs).rows}
    assert rows["Two-level RL"][3] == Spread.of([run.average_accuracy for run in glyphs if "rmm" in run.policy_name])
    assert rows["UpperBound RL"][3] is None


def test_inputs_are_runs_studies_files_and_folders_of_them(tmp_path: Path) -> None:
    static, fixed = make_run("icarl", "static", [0.8, 0.6]), make_run("icarl", "fixed-0.6", [0.8, 0.7])
    for path, run in {"study/runs/fixed-0.6/result.json": fixed, "study/runs/static/result.json": static}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        save_result(tmp_path / path, run)
    (tmp_path / "study" / "study.json").write_text("{}")
    (tmp_path / "study" / "summary.json").write_text('{"format": 1, "rows": []}')
    found = read_runs([tmp_path / "study"])
    assert [run.result.policy_name for run in found] == ["static", "fixed-0.6"]
    assert found[0].folder == tmp_path / "study" / "runs" / "static"
    again = read_runs([tmp_path / "study" / "runs" / "fixed-0.6", tmp_path / "study"])
    assert [run.result.policy_name for run in again] == ["fixed-0.6", "static"]
    save_result(tmp_path / "copy.json", static)
    assert read_runs([tmp_path / "copy.json"])[0].folder is None
    assert len(read_runs([tmp_path])) == 2  # a copy counts once
    save_result(tmp_path / "copy.json", make_run("icarl", "static", [0.8, 0.5]))
    with pytest.raises(InputError, match=r"the same settings and seed as .*; expected every run once"):
        read_runs([tmp_path])
    with pytest.raises(InputError, match="nothing: no such file or folder"):
        read_runs([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no result of a run in it"):
        read_runs([tmp_path / "empty"])
    with pytest.raises(InputError, match=r"summary\.json"):
        read_runs([tmp_path / "study" / "summary.json"])


def test_settings_that_did_not_exist_when_a_run_was_made_have_their_defaults(tmp_path: Path) -> None:
    """Runs of one study, made by two versions, are one group; another value tells them apart."""
    new = {"data": {"imbalance": 1.0}, "method": {"temperature": 2.0}}
    files: dict[str, dict[str, Any]] = {"old": {}, "new": new, "other": {"data": {"imbalance": 10.0}}}
    for seed, (name, more) in enumerate(files.items()):
        save_result(tmp_path / f"{name}.json", make_run("icarl", "static", [0.8, 0.6], seed=seed, **more))
    runs = read_runs([tmp_path])
    assert [len(group.runs) for group in group_runs([run.result for run in runs])] == [2, 1]


def test_csv_is_read_back_by_a_reader() -> None:
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](summary_sheet(ALL)))))
    assert float(rows[0]["average %"]) == 51.5
    assert rows[0]["average - static"] == ""
