"""jsonfile.py: documents have a checksum that notices every damage and leaves seconds out of what runs compare."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from factories import timeless
from remem.errors import DamagedFileError
from remem.storage.jsonfile import read_json, seal, write_json

DOCUMENT: dict[str, Any] = {
    "format": 1,
    "average": 0.7962,
    "phases": [{"accuracy": 0.5, "seconds": {"train": 1.25}}, {"accuracy": None, "names": ["a", "é"]}],
}


def test_round_trip_without_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, DOCUMENT)
    assert read_json(path, "document", format=1) == DOCUMENT
    assert list(json.loads(path.read_text()))[-1] == "checksum"


def test_equal_documents_differ_only_in_their_seconds() -> None:
    """The digest of the seconds is itself called `seconds`: whoever leaves those out needs to know nothing of it."""
    slower = json.loads(json.dumps(DOCUMENT))
    slower["phases"][0]["seconds"]["train"] = 9.5
    one, other = seal(DOCUMENT), seal(slower)
    assert one != other
    assert timeless(one) == timeless(other)
    assert seal({**DOCUMENT, "average": 0.3962})["checksum"]["content"] != one["checksum"]["content"]


def test_every_changed_bit_is_noticed_or_changes_nothing(tmp_path: Path) -> None:
    """The bits of white space and of the case of an escape change nothing: the same document is read."""
    path = tmp_path / "file.json"
    write_json(path, DOCUMENT)
    content, silent = path.read_bytes(), 0
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(bytes(damaged))
            with suppress(DamagedFileError):
                assert read_json(path, "document", format=1) == DOCUMENT
                silent += 1
    assert silent <= 8  # the line break at the end


def test_a_shorter_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, DOCUMENT)
    content = path.read_bytes()
    for length in range(len(content) - 2):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFileError):
            read_json(path, "document", format=1)


def test_files_of_earlier_versions_have_no_checksum(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps(DOCUMENT))
    assert read_json(path, "document", format=1) == DOCUMENT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 1, "x": ' + "[" * 200 + "]" * 200 + "}", "nested more than 100 deep"),
        ('{"format": 1, "x": ' + "9" * 5000 + "}", "a number of more than 400 digits"),
        ('{"format": 1, "x": "' + '\\"' * 200_000, "Unterminated string"),
        ('{"format": 7}', "format 7, expected 1"),
        ("[1]", "list indices"),
    ],
)
def test_strange_documents_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(DamagedFileError, match=message) as caught:
        read_json(path, "document", format=1)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_brackets_inside_strings_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"format": 1, "text": "[" * 500 + '"' + "9" * 500})
    assert read_json(path, "document", format=1)["text"].startswith("[[[")
