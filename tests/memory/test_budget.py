"""budget.py: how budgets are written, what they mean in each phase, and what is refused."""

import pytest
from pydantic import ValidationError

from remem.errors import InputError
from remem.memory.budget import (
    Budget,
    BudgetSpec,
    MemorySettings,
    PaperBudget,
    PhaseFacts,
    budget_in_words,
    paper_budget,
    parse_budget,
    resolve,
)

CIFAR = {
    phases: [PhaseFacts(50, 25000)] + [PhaseFacts(50 // phases, 25000 // phases)] * phases for phases in (5, 10, 25)
}
CIFAR_ROW = 32 * 32 * 3


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("7000", BudgetSpec("fixed", 7000)),
        (7000, BudgetSpec("fixed", 7000)),
        (" 7000 ", BudgetSpec("fixed", 7000)),
        ("growing:20", BudgetSpec("growing", 20)),
        ("bytes:64MB", BudgetSpec("bytes", 64_000_000)),
        ("2MB", BudgetSpec("bytes", 2_000_000)),
        ("64MiB", BudgetSpec("bytes", 67_108_864)),
        ("1.5 kB", BudgetSpec("bytes", 1500)),
        ("5376000B", BudgetSpec("bytes", 5_376_000)),
        ("bytes:64MiB", BudgetSpec("bytes", 67_108_864)),
        ("bytes:1.5GB", BudgetSpec("bytes", 1_500_000_000)),
        ("bytes:2GiB", BudgetSpec("bytes", 2_147_483_648)),
        ("bytes:3kB", BudgetSpec("bytes", 3_000)),
        ("bytes:1TB", BudgetSpec("bytes", 10**12)),
        ("bytes:512", BudgetSpec("bytes", 512)),
        ("bytes:512B", BudgetSpec("bytes", 512)),
        (2**62 - 1, BudgetSpec("fixed", 2**62 - 1)),  # the largest
        (1, BudgetSpec("fixed", 1)),
        (None, None),
    ],
)
def test_budgets_as_users_write_them(text: str | int | None, spec: BudgetSpec | None) -> None:
    assert parse_budget(text) == spec


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", 2**62, -5, "-5", "7e3", "70.5", "7_000", "7000M", "2MB:3", "MB", "٧٠٠٠"),
        *("bytes:", "bytes:64XB", "bytes:64iB", "bytes:0.1B", "bytes:-1MB"),
        *("growing", "growing:", "growing:0", "growing:2.5", "shrinking:20"),
    ],
)
def test_other_text_is_refused_and_the_message_says_what_was_given_and_expected(text: str | int) -> None:
    with pytest.raises(InputError, match="growing:20") as error:
        parse_budget(text)
    assert f"'{text}'" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("phases", "total"), [(5, 7000), (10, 4500), (25, 3000)])
def test_the_default_is_the_papers_budget_on_cifar(phases: int, total: int) -> None:
    budget = resolve(None, None, CIFAR[phases], row_bytes=CIFAR_ROW)
    assert budget == Budget("fixed", total, exemplars=2000)


def test_the_default_counts_the_largest_incremental_phase() -> None:
    phases = [PhaseFacts(4, 900), PhaseFacts(2, 30), PhaseFacts(1, 45), PhaseFacts(2, 7)]
    assert resolve(None, None, phases, row_bytes=1) == Budget("fixed", 20 * 9 + 45, exemplars=180)
    assert resolve(None, 12, phases, row_bytes=1) == Budget("fixed", 12 + 45, exemplars=12)
    assert resolve(None, None, phases[:1], row_bytes=1) == Budget("fixed", 80, exemplars=80)


def test_bytes_are_whole_samples() -> None:
    budget = resolve(parse_budget("bytes:1MB"), None, CIFAR[5], row_bytes=CIFAR_ROW)
    assert budget.total(50, 5000) == 325  # 325 x 3072 = 998400, 326 x 3072 = 1001472
    assert budget.exemplar_part(50) == 2000


def test_a_growing_budget_follows_old_classes_and_new_data() -> None:
    budget = resolve(parse_budget("growing:20"), None, CIFAR[5], row_bytes=CIFAR_ROW)
    assert [budget.total(50 + 10 * i, 5000) for i in range(5)] == [6000, 6200, 6400, 6600, 6800]
    assert [budget.exemplar_part(50 + 10 * i) for i in range(5)] == [1000, 1200, 1400, 1600, 1800]
    assert budget == Budget("growing", 20, exemplars=0)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget("growing", 20), "20 samples per old class and all new data"),
        (
            Budget("fixed", 70, 20),
            "M = 70 samples, the paper's budget (E = 20 and 50 new samples of the largest phase)",
        ),
        (
            Budget("fixed", 71, 20),
            "M = 71 samples, not the paper's 70 (E = 20 and 50 new samples of the largest phase)",
        ),
        (
            Budget("fixed", 70, 35),
            "M = 70 samples, the paper's budget (E = 20 and 50 new samples of the largest phase); E = 35",
        ),
        (
            Budget("fixed", 39, 20),  # half of 39 is 19
            "M = 39 samples, not the paper's 70 (E = 20 and 50 new samples of the largest phase); "
            "static keeps half of M, 19, for old classes",
        ),
        (
            Budget("fixed", 110, 60),  # E is more than half, but the 50 new samples leave 60 for old classes
            "M = 110 samples, not the paper's 70 (E = 20 and 50 new samples of the largest phase); E = 60",
        ),
    ],
)
def test_a_budget_in_words_names_what_is_not_the_papers(budget: Budget, words: str) -> None:
    assert budget_in_words(budget, PaperBudget(exemplars=20, largest_phase=50)) == words


def test_less_than_one_sample_per_class_is_refused() -> None:
    assert resolve(BudgetSpec("fixed", 100), None, CIFAR[5], row_bytes=1).amount == 100
    with pytest.raises(InputError, match="budget: 99 samples are less than one for each of the 100 classes"):
        resolve(BudgetSpec("fixed", 99), None, CIFAR[5], row_bytes=1)
    with pytest.raises(InputError, match=r"97 samples \(300000 bytes of 3072 a sample\)"):
        resolve(parse_budget("bytes:300kB"), None, CIFAR[5], row_bytes=CIFAR_ROW)


def test_a_growing_budget_is_checked_in_every_phase() -> None:
    fine = [PhaseFacts(3, 9), PhaseFacts(2, 4)]
    assert resolve(BudgetSpec("growing", 1), None, fine, row_bytes=1).total(3, 4) == 7
    with pytest.raises(InputError, match="6 samples are less than one for each of the 7 classes of phases 0 to 2"):
        resolve(BudgetSpec("growing", 1), None, [*fine, PhaseFacts(2, 1)], row_bytes=1)
    with pytest.raises(InputError, match="4 samples are less than one for each of the 5 classes of phases 0 to 1"):
        resolve(BudgetSpec("growing", 1), None, [PhaseFacts(3, 9), PhaseFacts(2, 1), PhaseFacts(2, 9)], row_bytes=1)


def test_exemplars_must_be_positive_and_fit_the_kind_of_budget() -> None:
    with pytest.raises(InputError, match="exemplars: got 0"):
        resolve(None, 0, CIFAR[5], row_bytes=1)
    with pytest.raises(InputError, match="exemplars: got 2000, but growing:20"):
        resolve(BudgetSpec("growing", 20), 2000, CIFAR[5], row_bytes=1)


def test_settings_keep_numbers_as_numbers() -> None:
    settings = MemorySettings(budget=7000)
    assert type(settings.budget) is int
    assert MemorySettings(budget="growing:20").budget == "growing:20"
    assert MemorySettings(exemplars=1).exemplars == 1
    assert MemorySettings() == MemorySettings(budget=None, exemplars=None, selection="herding")


@pytest.mark.parametrize(
    "bad",
    [{"budget": True}, {"budget": "many"}, {"exemplars": 0}, {"exemplars": 2**62 + 1}, {"size": 3}, {"budget": 7.5}],
)
def test_settings_refuse_wrong_types_and_unknown_names(bad: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MemorySettings.model_validate(bad)


def test_bytes_hold_as_many_samples_as_fit_at_every_rung() -> None:
    """2 MB of 16 px: raw, ycc420-5, and a codec of variable size whose mean grows from phase to phase."""
    sizes = ((768,), (240,), (100, 110, 125))
    budget = resolve(parse_budget("2MB"), None, CIFAR[5], row_bytes=768, sizes=sizes)
    assert (budget.kind, budget.bytes, budget.setting, budget.rungs) == ("bytes", 2_000_000, "2000000B", 3)
    assert [budget.total(50, 5000, phase=1, rung=rung) for rung in range(3)] == [2604, 8333, 18181]
    assert [budget.total(50, 5000, phase=phase, rung=2) for phase in (1, 2, 5)] == [18181, 16000, 16000]
    assert budget_in_words(budget, paper_budget(CIFAR[5])).startswith("B = 2000000 bytes, about 2604 to 20000 samples")


def test_several_codecs_need_bytes_and_have_the_bytes_of_the_paper_s_samples_by_default() -> None:
    sizes = ((768,), (240,))
    budget = resolve(None, None, CIFAR[5], row_bytes=768, sizes=sizes)
    assert (budget.amount, budget.exemplars) == (7000 * 768, 2000)
    for text in ("7000", "growing:20"):
        with pytest.raises(InputError, match="but several codecs to choose from; expected bytes"):
            resolve(parse_budget(text), None, CIFAR[5], row_bytes=768, sizes=sizes)
    with pytest.raises(InputError, match=r"budget: 83 samples \(20000 bytes of 240 a sample\) are less than one"):
        resolve(parse_budget("20kB"), None, CIFAR[5], row_bytes=768, sizes=sizes)
