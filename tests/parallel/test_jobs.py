"""Job kinds: registered with their module, found by name, and clear errors for all others."""

from collections.abc import Mapping
from typing import Any

import pytest

from parallel.toy_jobs import TOY, toy
from remem.errors import InputError
from remem.events import Emit
from remem.parallel.jobs import JOB_KINDS, find_handler, job_kind


def test_a_kind_is_its_module_and_its_name() -> None:
    assert TOY == "parallel.toy_jobs:toy"
    assert find_handler(TOY) is toy


def test_a_kind_registers_once() -> None:
    def handler(payload: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
        return {}

    name = f"{handler.__module__}:once"
    try:
        assert job_kind("once")(handler) is handler
        assert JOB_KINDS[name] is handler
        with pytest.raises(ValueError, match=f"a job kind named '{name}' is registered already"):
            job_kind("once")(handler)
    finally:
        JOB_KINDS.remove(name)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("parallel.toy_jobs:toi", "no job kind named 'parallel.toy_jobs:toi'; did you mean 'parallel.toy_jobs:toy'?"),
        ("not_there:toy", "job kind 'not_there:toy': cannot import its module (No module named 'not_there')"),
        ("toy", "job kind 'toy' given; expected 'module:id'"),
        (":toy", "job kind ':toy' given; expected 'module:id'"),
        ("parallel.toy_jobs:", "job kind 'parallel.toy_jobs:' given; expected 'module:id'"),
    ],
)
def test_unknown_kinds(kind: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        find_handler(kind)
    assert str(caught.value) == message
