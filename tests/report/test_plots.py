"""plots.py and series.py: what figures show, read back from the drawn lines; every kind of file."""

from itertools import product

import numpy as np
import pytest
from matplotlib.lines import Line2D

from remem.report.groups import group_runs
from remem.report.plots import (
    COLOURS,
    KINDS,
    accuracy_figure,
    colour_of,
    encode,
    inline_svg,
    marker_of,
    matrix_figure,
    memory_figure,
)
from remem.report.series import codecs_in_order, matrix, samples_per_class, scenarios
from report_factories import make_run, with_codecs

RUNS = [make_run("icarl", "static", [0.81, 0.62, 0.43]), make_run("icarl", "fixed-0.6", [0.81, 0.67, 0.55])]
SEEDS = [make_run("icarl", "static", [0.8, last], seed=seed) for seed, last in enumerate((0.4, 0.44, 0.48))]
BEGINNINGS = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}


def values(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_ydata(), float)]


def test_lines_are_the_accuracies_in_percent() -> None:
    [axes] = accuracy_figure(RUNS).axes
    assert [values(line) for line in axes.lines] == [
        pytest.approx([81, 62, 43]),
        pytest.approx([81, 67, 55]),
    ]
    assert len(axes.collections) == 0  # one seed has no band


def test_bands_are_intervals_over_seeds() -> None:
    [axes] = accuracy_figure(SEEDS).axes
    [line] = axes.lines
    assert values(line) == pytest.approx([80, 44])
    [band] = axes.collections
    # Deviation 4, t(2) = 4.3027, half width 4.3027 x 4 / sqrt(3) = 9.937.
    assert band.get_datalim(axes.transData).bounds[1] == pytest.approx(44 - 9.937, abs=0.01)


def test_memory_has_old_and_new_classes_and_an_enlarged_view() -> None:
    whole, enlarged = memory_figure(RUNS).axes
    # Phase 1: 10 samples of 4 old and 30 of 2 new classes; phase 2: of 6 old ones.
    old, new = (values(line) for line in whole.lines[:2])
    assert old == pytest.approx([10 / 4, 10 / 6])
    assert new == [15, 15]
    assert (whole.lines[0].get_linestyle(), whole.lines[1].get_linestyle()) == ("-", "--")
    assert enlarged.get_ylim() == pytest.approx((0, 1.25 * 10 / 4))


SIZES = {"raw": 1000, "coarse": 250}
CODED = [with_codecs(RUNS[0], ["raw", "raw"], SIZES), with_codecs(RUNS[1], ["raw", "coarse"], SIZES)]


def test_memory_in_bytes_has_a_row_in_kilobytes_and_one_with_the_codecs() -> None:
    """Per class in kB: in phase 1 of 4 old and 2 new classes 2.5 and 15 samples of 1 kB; later of 0.25 kB."""
    samples, _, kilobytes, enlarged, codecs = memory_figure(CODED).axes
    assert values(samples.lines[2]) == pytest.approx([10 / 4, 10 / 6])
    old, new = (values(line) for line in kilobytes.lines[2:4])
    assert old == pytest.approx([10 / 4, 0.25 * 10 / 6])
    assert new == pytest.approx([15, 0.25 * 15])
    assert enlarged.get_ylim() == pytest.approx((0, 1.25 * 10 / 4))
    assert [label.get_text() for label in codecs.get_yticklabels()] == ["raw", "coarse"]
    assert [np.round(values(line)).tolist() for line in codecs.lines] == [[0, 0], [0, 1]]


def test_a_run_without_bytes_beside_one_with_them_keeps_its_colour() -> None:
    _, _, kilobytes, *_ = memory_figure([RUNS[0], CODED[1]]).axes
    assert [line.get_color() for line in kilobytes.lines] == [COLOURS[1]] * 2


def test_codecs_are_ordered_from_exact_to_coarse() -> None:
    assert codecs_in_order(group_runs(list(reversed(CODED)))) == ["raw", "coarse"]
    assert codecs_in_order(group_runs(RUNS)) == []


def test_the_matrix_is_a_mean_over_seeds_and_has_no_values_above_the_diagonal() -> None:
    [group] = group_runs(SEEDS)
    np.testing.assert_allclose(matrix(group), [[0.8, np.nan], [0.44, 0.44]])
    axes, _bar = matrix_figure(SEEDS).axes
    assert [text.get_text() for text in axes.texts] == ["80", "44", "44"]
    assert axes.get_title() == "icarl / static"


def test_titles_and_labels_of_a_matrix_keep_apart() -> None:
    """Four settings make two rows: the axis label of the first stays clear of the title of the second."""
    runs = [make_run("icarl", policy, [0.8, 0.6, 0.5]) for policy in ("static", "fixed-0.5", "fixed-0.6", "fixed-0.7")]
    figure = matrix_figure(runs)
    figure.draw_without_rendering()  # lays it out
    above, _, _, below = figure.axes[:4]
    label, title = above.xaxis.label.get_window_extent(), below.title.get_window_extent()
    assert label.y0 - title.y1 > title.height / 2
    bar = figure.axes[-1].get_window_extent()
    assert bar.height / bar.width > 25


def test_numbers_of_a_matrix_are_white_on_dark_cells_only() -> None:
    axes, _bar = matrix_figure([make_run("icarl", "static", [0.95, 0.5])]).axes
    assert [text.get_color() for text in axes.texts] == ["white", "#010203", "#010203"]


def test_scenarios_do_not_share_a_plot() -> None:
    other = make_run("icarl", "static", [0.8, 0.6], data={"name": "digits"})
    assert [len(runs) for runs in scenarios([*RUNS, other]).values()] == [2, 1]
    assert len(accuracy_figure([*RUNS, other]).axes) == 2


def test_many_groups_look_different() -> None:
    assert len({(colour_of(place), marker_of(place)) for place in range(84)}) == 84
    assert len({colour_of(place) for place in range(12)}) == 12


@pytest.mark.parametrize(("kind", "form"), [*product(KINDS, BEGINNINGS)])
def test_every_kind_of_file_is_written_and_repeats_exactly(kind: str, form: str) -> None:
    content = encode(KINDS[kind](RUNS), form)
    assert content.startswith(BEGINNINGS[form])
    assert content == encode(KINDS[kind](RUNS), form)


def test_inline_figures_use_the_text_colour_of_the_page() -> None:
    svg = inline_svg(accuracy_figure(RUNS), "accuracy", "label")
    assert svg == inline_svg(accuracy_figure(RUNS), "accuracy", "label")
    assert "currentColor" in svg
    assert all(colour.lower() in svg.lower() for colour in COLOURS[:2])
    assert COLOURS[2].lower() not in svg.lower()
    assert "<text" not in svg  # letters are paths: no font is needed


def test_samples_per_class() -> None:
    _, first, second = RUNS[0].phases
    assert samples_per_class(first, second) == pytest.approx((10 / 6, 30 / 2))
