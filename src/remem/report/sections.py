"""Tables and figures of a page as HTML: captions, choices and buttons. The page's script draws the figures."""

from collections.abc import Iterable, Sequence
from html import escape

from remem.report.tables import Table
from remem.types import Json

CAPTIONS = {
    "accuracy": "After every phase: accuracy on all classes seen so far.",
    "bands": " Bands are 95 % intervals over seeds.",
    "gain": " Minus static: the difference to static with the same seed; a band above zero is a gain in that phase.",
    "memory": "Samples held per old class (lines) and per new class (dotted) in every phase, and the same enlarged.",
    "bytes": "Samples, or kB as stored, per old class (lines) and per new class (dotted) in every phase, and the same "
    "enlarged. Bytes are samples times the mean size of a sample in that phase.",
    "decisions": "What was decided in every phase: the share of the memory for old classes, and how much of what the "
    "latest old classes get goes to the harder half of them (0.5: as much as the easier half). Means over seeds.",
    "coded": "What was decided in every phase: how exactly samples are stored (the codec of most seeds, exact ones on "
    "top), the share of the memory for old classes, and how much of what the latest old classes get goes to the harder "
    "half of them (means over seeds).",
    "path": "What the policy would do in the paper's scenarios: 100 classes of 500 samples, 50 of them in phase 0.",
    "matrix": "Accuracy on the classes of every phase, after every phase; the mean over seeds.",
    "forgetting": "Points that the classes of a phase lost from their best to their last accuracy.",
    "losses": "The sum of all loss terms, epoch by epoch; dotted lines separate the phases.",
    "policy": "Probability of every action of a learned policy, by its state: the number of new classes divided by "
    "that of old ones, and the share that old classes have so far.",
    "course": "Mean reward (an average accuracy on pseudo tasks), entropy of the policy and norm of its gradient.",
}

WORDS = {"group": "setting", "view": "shown"}  # choices that have other names for readers


def html_table(table: Table, name: str, marks: Iterable[int] = ()) -> str:
    """A table that can be sorted and saved, and scrolls sideways; marked rows follow the filter of settings."""

    def row(cells: Sequence[str], tag: str, mark: int | None = None) -> str:
        shown = [f"<button type='button'>{escape(c)}</button>" if tag == "th" else escape(c) for c in cells]
        kinds = (' class="word"' if column < table.labels else "" for column in range(len(cells)))
        begin = "<tr>" if mark is None else f'<tr data-of="{mark}">'
        return begin + "".join(f"<{tag}{k}>{cell}</{tag}>" for cell, k in zip(shown, kinds, strict=True)) + "</tr>"

    given = list(marks)
    body = "\n".join(row(cells, "td", given[place] if given else None) for place, cells in enumerate(table.rows))
    return (
        f'<div class="wide" tabindex="0"><table id="{name}">\n<thead>{row(table.header, "th")}</thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>\n"
        f'<div class="tools"><button class="small" type="button" data-csv="{name}">CSV</button></div>'
    )


def figure_sections(data: Json) -> list[str]:
    """Every figure for which there are data."""
    scenarios = list(enumerate(data["scenarios"]))
    groups = [(place, group["name"]) for place, group in enumerate(data["groups"])]
    runs = list(enumerate(data["runs"]))
    detailed = [(place, run["name"]) for place, run in runs if run["classes"]]
    confused = [(place, run["name"]) for place, run in runs if run["confusion"]]
    logged = [(place, run["name"]) for place, run in runs if run["losses"]]
    policies = list(enumerate(data["policies"]))
    spaces = [(place, policy["name"]) for place, policy in policies if "level1_first" in policy]
    courses = [(place, policy["name"]) for place, policy in policies if policy["course"]["epoch"]]
    parts = [
        _accuracy(data, _choice("scenario", "accuracy", scenarios)),
        _memory(data, _choice("scenario", "memory", scenarios)),
        *_decisions(data, _choice("scenario", "decisions", scenarios)),
        _section("Accuracy matrix", "matrix", CAPTIONS["matrix"], _choice("group", "matrix", groups)),
    ]
    if any(group["forgetting"] for group in data["groups"]):
        choice = _choice("scenario", "forgetting", scenarios)
        parts.append(_section("Forgetting", "forgetting", CAPTIONS["forgetting"], choice))
    if detailed:
        parts.append(_classes(data, detailed))
    if confused:
        parts.append(_confusion(confused))
    if logged:
        parts.append(_section("Losses", "losses", CAPTIONS["losses"], _choice("run", "losses", logged)))
    if spaces:
        parts.append(_section("Policy", "policy", CAPTIONS["policy"], _choice("policy", "space", spaces, "policy")))
    walking = [(place, policy["name"]) for place, policy in policies if policy["paths"]]
    if walking:
        choice = _choice("policy", "path", walking)
        parts.append(_section("Paths of the policy", "path", CAPTIONS["path"], choice))
    if courses:
        choice = _choice("policy", "course", courses)
        parts.append(_section("Course of learning", "course", CAPTIONS["course"], choice))
    return parts


def _accuracy(data: Json, choice: str) -> str:
    """Bands are mentioned where some setting has more than one seed; differences are a choice where there are some."""
    bands = any(half is not None for group in data["groups"] for half in group["accuracy"]["half"])
    gains = any(group["gain"] for group in data["groups"])
    caption = CAPTIONS["accuracy"] + (CAPTIONS["bands"] if bands else "") + (CAPTIONS["gain"] if gains else "")
    shown = _choice("view", "accuracy", [(0, "accuracy"), (1, "accuracy minus static")]) if gains else ""
    return _section("Accuracy", "accuracy", caption, choice + shown)


def _memory(data: Json, choice: str) -> str:
    """Samples per class; a choice between samples and bytes where bytes are known."""
    if not any(group["bytes"] for group in data["groups"]):
        return _section("Memory", "memory", CAPTIONS["memory"], choice)
    units = _choice("unit", "memory", [(0, "samples"), (1, "kB")])
    return _section("Memory", "memory", CAPTIONS["bytes"], choice + units)


def _decisions(data: Json, choice: str) -> list[str]:
    """Left out where all that was decided is one share for all phases."""
    shares = {share for group in data["groups"] for share in group["share"]["y"]}
    if len(shares) < 2 and not data["codecs"]:
        return []
    caption = CAPTIONS["coded" if data["codecs"] else "decisions"]
    return [_section("Decisions", "decisions", caption, choice)]


def _classes(data: Json, detailed: Sequence[tuple[int, str]]) -> str:
    left = (
        f" {data['left_out']} runs are left out here, because they have too many numbers." if data["left_out"] else ""
    )
    search = '<label>class <input id="search" type="search" placeholder="filter by name"></label>'
    return _section(
        "Classes by difficulty",
        "classes",
        "Accuracy on every class; the line is its accuracy after its own phase, by which classes are ordered." + left,
        _choice("run", "classes", detailed) + _phase("classes") + search,
    )


def _confusion(confused: Sequence[tuple[int, str]]) -> str:
    box = '<input id="by-class" type="checkbox" data-draws="confusion">'
    caption = "How the test samples of the classes of a phase are classified, in % of each row."
    table = Table(("true class", "predicted class", "times", "% of the true class"), (), labels=2)
    pairs = html_table(table, "confused").replace("<tbody>", '<tbody id="pairs">')
    tools = (
        _choice("run", "confusion", confused)
        + _phase("confusion")
        + f"<label>{box} class by class, after the last phase</label>"
    )
    return (
        _section("Confusion", "confusion", caption, tools)
        + f"<h3>Most frequent mistakes after the last phase</h3>{pairs}"
    )


def _section(title: str, name: str, caption: str, tools: str) -> str:
    saves = "".join(
        f'<button class="small" type="button" data-save="{form}" data-figure="{name}">{form.upper()}</button>'
        for form in ("svg", "png")
    )
    return (
        f'<h2>{escape(title)}</h2>\n<div class="tools">{tools}</div>\n'
        f'<figure><div class="plot" id="figure-{name}"></div>\n'
        f'<figcaption>{escape(caption)}</figcaption></figure>\n<div class="tools">{saves}</div>'
    )


def _choice(what: str, name: str, options: Sequence[tuple[int, str]], draws: str | None = None) -> str:
    """A list to choose from; with one entry only, it is hidden."""
    entries = "".join(f'<option value="{place}">{escape(word)}</option>' for place, word in options)
    hidden = " hidden" if len(options) < 2 else ""
    return (
        f"<label{hidden}>{WORDS.get(what, what)} "
        f'<select id="{what}-{name}" data-draws="{draws or name}">{entries}</select></label>'
    )


def _phase(name: str) -> str:
    return f'<label>after phase <select id="phase-{name}" data-draws="{name}"></select></label>'
