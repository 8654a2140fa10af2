"""losses.py: every term against simple loops, and gradients of equivalent forms."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from remem.methods.finetune import Finetune, FinetuneMethodSettings
from remem.methods.icarl import Icarl, IcarlSettings
from remem.methods.losses import classify, distil, sigmoid_targets
from remem.methods.lwf import Lwf, LwfSettings
from remem.methods.method import Method, PhaseFacts
from remem.nets.base import Output
from remem.nets.network import build_network
from remem.nets.settings import NetSettings

CLOSE = 1e-6  # float32 sums of a dozen terms of size 1: a few units in the seventh digit
OLD, CLASSES = 3, 5
LABELS = torch.tensor([0, 4, 2, 3])


def made(columns: int, seed: int) -> Tensor:
    return 2 * torch.randn(4, columns, generator=torch.Generator().manual_seed(seed))


def softmax(values: list[float]) -> list[float]:
    powers = [math.exp(value) for value in values]
    return [power / sum(powers) for power in powers]


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def plain_classify(logits: Tensor, labels: Tensor) -> float:
    rows = zip(logits.tolist(), labels.tolist(), strict=True)
    return sum(-math.log(softmax(row)[label]) for row, label in rows) / len(labels)


def plain_soft_entropy(logits: Tensor, teacher: Tensor, temperature: float) -> tuple[float, float]:
    """-sum p log q over the teacher's classes, and the teacher's entropy, both averaged over the batch."""
    cross = own = 0.0
    for row, advice in zip(logits.tolist(), teacher.tolist(), strict=True):
        q = softmax([value / temperature for value in row[: len(advice)]])
        p = softmax([value / temperature for value in advice])
        cross -= sum(a * math.log(b) for a, b in zip(p, q, strict=True))
        own -= sum(a * math.log(a) for a in p)
    return cross / len(logits), own / len(logits)


def plain_sigmoid(logits: Tensor, labels: Tensor, teacher: Tensor | None) -> float:
    total = 0.0
    for n, row in enumerate(logits.tolist()):
        for column, value in enumerate(row):
            target = float(column == labels[n])
            if teacher is not None and column < teacher.shape[1]:
                target = sigmoid(float(teacher[n, column]))
            q = sigmoid(value)
            total -= target * math.log(q) + (1 - target) * math.log(1 - q)
    return total / logits.numel()


def test_classify() -> None:
    logits = made(CLASSES, 0)
    assert classify(logits, LABELS).item() == pytest.approx(plain_classify(logits, LABELS), abs=CLOSE)
    assert classify(torch.zeros(2, 8), torch.tensor([1, 7])).item() == pytest.approx(math.log(8), abs=CLOSE)


@pytest.mark.parametrize("temperature", [1.0, 2.0, 5.0])
def test_distil(temperature: float) -> None:
    logits, teacher = made(CLASSES, 1), made(OLD, 2)
    cross, own = plain_soft_entropy(logits, teacher, temperature)
    assert distil(logits, teacher, temperature).item() == pytest.approx(cross - own, abs=CLOSE)


def test_distil_is_zero_for_the_teacher_itself_with_any_new_columns() -> None:
    teacher = made(OLD, 3)
    logits = torch.cat([teacher + 7.0, made(CLASSES - OLD, 4)], dim=1)  # softmax is invariant to a common shift
    assert distil(logits, teacher, 2.0).item() == pytest.approx(0.0, abs=CLOSE)


def test_all_three_published_forms_have_the_same_gradient() -> None:
    """Ours, the soft cross-entropy, and LUCIR's element mean x O x T^2 x 0.25."""
    teacher = made(OLD, 5)

    def ours(logits: Tensor) -> Tensor:
        return distil(logits, teacher, 2.0)

    def soft_entropy(logits: Tensor) -> Tensor:
        p = torch.softmax(teacher / 2, dim=1)
        return -(p * torch.log_softmax(logits[:, :OLD] / 2, dim=1)).sum(dim=1).mean()

    def lucir(logits: Tensor) -> Tensor:
        p, log_q = torch.softmax(teacher / 2, dim=1), torch.log_softmax(logits[:, :OLD] / 2, dim=1)
        element_mean = (p * (p.log() - log_q)).mean()
        return element_mean * OLD * 2**2 * 0.25

    gradients = []
    for form in (ours, soft_entropy, lucir):
        logits = made(CLASSES, 6).requires_grad_()
        form(logits).backward()
        assert logits.grad is not None
        gradients.append(logits.grad)
    for other in gradients[1:]:
        torch.testing.assert_close(gradients[0], other, rtol=0, atol=CLOSE)
    assert gradients[0][:, :OLD].abs().max() > 0.01
    assert torch.equal(gradients[0][:, OLD:], torch.zeros(4, CLASSES - OLD))


def test_sigmoid_form_in_the_first_phase_is_one_hot() -> None:
    logits = made(CLASSES, 7)
    expected = plain_sigmoid(logits, LABELS, None)
    assert sigmoid_targets(logits, LABELS, None).item() == pytest.approx(expected, abs=CLOSE)


def test_sigmoid_form_takes_old_columns_from_the_teacher() -> None:
    """Also for exemplars: labels of old classes have no effect (Alg. 3)."""
    logits, teacher = made(CLASSES, 8), made(OLD, 9)
    value = sigmoid_targets(logits, LABELS, teacher).item()
    assert value == pytest.approx(plain_sigmoid(logits, LABELS, teacher), abs=CLOSE)
    others = torch.tensor([1, 4, 0, 3])  # other old labels, the same new ones
    assert sigmoid_targets(logits, others, teacher).item() == value
    assert sigmoid_targets(logits, torch.tensor([0, 3, 2, 3]), teacher).item() != value


def loss_terms(method: Method, *, old: int, teacher: Tensor | None, logits: Tensor, labels: Tensor) -> dict[str, float]:
    """The values of a method's loss terms for given logits."""
    network = build_network(NetSettings(name="mlp"), (4,), method.head, 0)
    facts = PhaseFacts(index=1 if old else 0, old_classes=old, new_classes=CLASSES - old)
    none = torch.empty(len(logits), 0)
    advice = None if teacher is None else Output(none, (), teacher, teacher)
    terms = method.objective(facts, network)(Output(none, (), logits, logits), labels, advice)
    return {name: term.item() for name, term in terms.items()}


def test_terms_of_the_methods() -> None:
    logits, teacher = made(CLASSES, 10), made(OLD, 11)
    cross, own = plain_soft_entropy(logits, teacher, 2.0)
    ce, kd = plain_classify(logits, LABELS), cross - own
    finetune = loss_terms(Finetune(FinetuneMethodSettings()), old=OLD, teacher=teacher, logits=logits, labels=LABELS)
    assert finetune == pytest.approx({"classify": ce}, abs=CLOSE)
    for method in (Icarl(IcarlSettings()), Lwf(LwfSettings())):
        terms = loss_terms(method, old=OLD, teacher=teacher, logits=logits, labels=LABELS)
        assert terms == pytest.approx({"classify": ce, "distil": kd}, abs=CLOSE)
        first = loss_terms(method, old=0, teacher=None, logits=logits, labels=LABELS)
        assert first == pytest.approx({"classify": ce}, abs=CLOSE)
    heavy = Icarl(IcarlSettings(weight=2.5))
    terms = loss_terms(heavy, old=OLD, teacher=teacher, logits=logits, labels=LABELS)
    assert terms["distil"] == pytest.approx(2.5 * kd, abs=3 * CLOSE)
    original = Icarl(IcarlSettings(loss="sigmoid"))
    terms = loss_terms(original, old=OLD, teacher=teacher, logits=logits, labels=LABELS)
    assert terms == pytest.approx({"sigmoid": plain_sigmoid(logits, LABELS, teacher)}, abs=CLOSE)


def test_lwf_without_replay_classifies_among_new_classes_only() -> None:
    logits, teacher = made(CLASSES, 12), made(OLD, 13)
    labels = torch.tensor([3, 4, 4, 3])  # no exemplars: every label is new
    cross, own = plain_soft_entropy(logits, teacher, 2.0)
    terms = loss_terms(Lwf(LwfSettings(replay=False)), old=OLD, teacher=teacher, logits=logits, labels=labels)
    expected = {"classify": plain_classify(logits[:, OLD:], labels - OLD), "distil": 3 * (cross - own)}
    assert terms == pytest.approx(expected, abs=3 * CLOSE)  # three times the distillation, three times its rounding
    changed = logits.clone()
    changed[:, :OLD] += torch.from_numpy(np.array([1.0, -2.0, 3.0], np.float32))
    again = loss_terms(Lwf(LwfSettings(replay=False)), old=OLD, teacher=teacher, logits=changed, labels=labels)
    assert again["classify"] == terms["classify"]
