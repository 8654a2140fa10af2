"""What a model remembers as one self-contained page: the account of its memory, and every class in pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from PIL import Image

from remem.report.gallery import as_image, data_url
from remem.report.style import STYLE
from remem.report.tables import Table
from remem.types import Values

SIDE = 64  # pixels of a thumbnail; smaller pictures stay as they are, and are shown larger
MOST, LEAST = 3000, 8  # pictures in all; of a class at least so many are shown
# Nothing is fetched and nothing runs.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'"
OWN_STYLE = """
.class { border-top: 1px solid var(--line); padding: .7rem 0; }
.class h3 { margin: 0; overflow-wrap: anywhere; }
.thumbs { display: flex; flex-wrap: wrap; gap: 3px; margin-top: .4rem; }
.thumbs img { width: 3.5rem; height: 3.5rem; object-fit: contain; background: var(--tint); border-radius: 2px; }
.thumbs img.tiny { image-rendering: pixelated; }
code { font-size: .88em; background: var(--tint); border-radius: 3px; padding: .1em .3em; overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Remembered:
    """One class: its name, facts about it in words, and its samples (n, h, w, c), best first, with their ids."""

    name: str
    facts: str
    values: Values
    ids: Sequence[str]


@dataclass(frozen=True)
class StorePage:
    """Everything that the page shows."""

    title: str
    lines: Sequence[str]  # totals, in words
    table: Table
    classes: Sequence[Remembered]  # empty where samples are no pictures
    hint: str  # what can be done with an id
    command: str  # that makes the page again

    def html(self) -> str:
        """The page; everything that comes from a user is escaped."""
        parts = [
            f"<h1>{escape(self.title)}</h1>",
            *(f"<p>{escape(line)}</p>" for line in self.lines),
            "<h2>Memory by class</h2>",
            _html_table(self.table),
            "<h2>Pictures</h2>",
            *(self._pictures() if self.classes else ['<p class="soft">The samples are no pictures.</p>']),
            f"<footer><p>Made by <code>{escape(self.command)}</code>. Nothing is fetched from elsewhere.</p></footer>",
        ]
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f"<title>{escape(self.title)}</title>\n<style>{STYLE}{OWN_STYLE}</style>\n</head>\n<body>\n<main>\n"
            + "\n".join(parts)
            + "\n</main>\n</body>\n</html>\n"
        )

    def _pictures(self) -> list[str]:
        each = max(LEAST, MOST // len(self.classes))
        return [f'<p class="soft">{escape(self.hint)}</p>', *(_class(own, each) for own in self.classes)]


def _class(own: Remembered, most: int) -> str:
    shown = "".join(_thumbnail(tile, name) for tile, name in zip(own.values[:most], own.ids, strict=False))
    rest = len(own.values) - most
    more = f'<p class="soft">and {rest} more</p>' if rest > 0 else ""
    return (
        f'<section class="class"><h3>{escape(own.name)}</h3><p class="soft">{escape(own.facts)}</p>'
        f'<div class="thumbs">{shown}</div>{more}</section>'
    )


def _thumbnail(tile: Values, name: str) -> str:
    image = as_image(tile)
    kind = ' class="tiny"' if max(image.size) < SIDE else ""
    if max(image.size) > SIDE:
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return f'<img{kind} src="{data_url(image)}" title="{escape(name)}" alt="{escape(name)}" loading="lazy">'


def _html_table(table: Table) -> str:
    """Without the buttons of reports: nothing runs here."""

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="word"' if column < table.labels else "" for column in range(len(cells)))
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))

    body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    return (
        f'<div class="wide" tabindex="0"><table>\n<thead><tr>{row(table.header, "th")}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )
