"""Which kind of work a folder holds."""

from pathlib import Path

import pytest

from remem.cli import folders
from remem.errors import InputError
from remem.rl.learn import LEARNING
from remem.runs.run import RUN
from remem.studies.run import STUDY


def test_the_settings_file_decides(tmp_path: Path) -> None:
    for work, kind in ((folders.RUN, RUN), (folders.LEARNING, LEARNING), (folders.STUDY, STUDY)):
        assert (work.name, work.settings_file) == (kind.name, kind.settings_file)
        folder = tmp_path / work.name
        folder.mkdir()
        (folder / kind.settings_file).touch()
        assert folders.work_in(folder) is work
    with pytest.raises(InputError, match="no run, learning or study; expected a folder with one of"):
        folders.work_in(tmp_path)


def test_a_model_is_updated_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "model.json").touch()
    with pytest.raises(InputError, match=r"a model, with nothing to resume; `remem update .* DATA` goes on with it"):
        folders.work_in(tmp_path)
