"""IncrementalClassifier: scikit-learn's own checks, pipelines, searches, pickles and folders."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

import remem
from remem import IncrementalClassifier, InputError
from stream_factories import IMAGES, X, digits, y

SKIPPED = {  # by scikit-learn itself
    "check_array_api_input": "only with SCIPY_ARRAY_API set",
    "check_classifier_data_not_an_array": "its last part needs pandas",
}
QUICK: dict[str, Any] = {"budget": 200, "epochs": 2, "settings": {"finetune.epochs": 1}}


@pytest.mark.filterwarnings("ignore")  # the checks hand over odd data on purpose
def test_scikit_learn_checks() -> None:
    from unittest import SkipTest

    skipped, passed = set(), 0
    for estimator, check in estimator_checks_generator(IncrementalClassifier(epochs=5)):
        try:
            check(estimator)
            passed += 1
        except SkipTest:
            skipped.add(check.func.__name__)
    assert skipped <= SKIPPED.keys()
    assert passed > 45


def test_new_and_known_classes_in_any_call() -> None:
    clf = IncrementalClassifier(**QUICK)
    clf.partial_fit(*digits(0, 1, 2, 3, 4)).partial_fit(*digits(5, 6, 7)).partial_fit(*digits(1, 9))
    assert clf.classes_.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert clf.memory_.total_samples == 200
    assert clf.score(*digits(*clf.classes_)) > 0.7
    probabilities = clf.predict_proba(X[:50])
    assert probabilities.shape == (50, 9)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[probabilities.argmax(axis=1)], clf.predict(X[:50]))


def test_labels_are_returned_as_they_were_given() -> None:
    clf = IncrementalClassifier(**QUICK).fit(X[:100], np.array([f"digit {label}" for label in y[:100]]))
    assert clf.predict(X[:1]).tolist() == ["digit 0"]


def test_images_are_taken_as_they_are() -> None:
    clf = IncrementalClassifier(**QUICK, backbone="small").fit(IMAGES[:200], y[:200])
    assert clf.predict(IMAGES[:7]).shape == (7,)
    assert not hasattr(clf, "n_features_in_")
    with pytest.raises(InputError, match=r"X: shape \(3, 64\); expected images of shape \(8, 8, 1\)"):
        clf.predict(X[:3])


def test_pipelines_and_searches() -> None:
    data = X[:300], y[:300]
    pipeline = make_pipeline(StandardScaler(), IncrementalClassifier(**QUICK))
    assert cross_val_score(pipeline, *data, cv=2).mean() > 0.5
    search = GridSearchCV(IncrementalClassifier(**QUICK), {"policy": ["static", "fixed-0.5"]}, cv=2).fit(*data)
    assert search.best_params_["policy"] in ("static", "fixed-0.5")


def test_fit_forgets_and_equal_calls_give_equal_models() -> None:
    first = IncrementalClassifier(**QUICK, random_state=1).fit(X[:200], y[:200])
    other = IncrementalClassifier(**QUICK, random_state=1).partial_fit(*digits(3, 4)).fit(X[:200], y[:200])
    np.testing.assert_array_equal(first.predict_proba(X), other.predict_proba(X))
    seeded = IncrementalClassifier(**QUICK, random_state=np.random.RandomState(0)).fit(X[:200], y[:200])
    assert not np.array_equal(first.predict_proba(X), seeded.predict_proba(X))


def test_saving_replaces_what_was_there(tmp_path: Path) -> None:
    clf = IncrementalClassifier(**QUICK, method="lucir").partial_fit(*digits(0, 1, 2))
    clf.save(tmp_path / "model")
    clf.partial_fit(*digits(3, 4))
    clf.save(tmp_path / "model")
    loaded = IncrementalClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert len(list((tmp_path / "model" / "versions").iterdir())) == 1
    assert loaded.get_params()["method"] == "lucir"
    for one in (clf, loaded):
        one.partial_fit(*digits(5))
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    fresh = loaded.fit(*digits(0, 1, 2))  # with the settings that it was loaded with
    np.testing.assert_array_equal(
        fresh.predict_proba(X), IncrementalClassifier(**QUICK, method="lucir").fit(*digits(0, 1, 2)).predict_proba(X)
    )


def test_pickles_and_copies_hold_files_and_no_code() -> None:
    clf = IncrementalClassifier(**QUICK).fit(X[:200], y[:200])
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert set(clf.__getstate__()["stream_"]) == {"model.safetensors", "exemplars.safetensors"}


def test_deletion_and_budgets() -> None:
    clf = IncrementalClassifier(**QUICK).fit(X[:300], y[:300])
    receipt = clf.forget(classes=[7])
    assert receipt.classes == (7,)
    assert 7 not in clf.classes_
    assert 7 not in clf.predict(X)
    assert clf.set_budget(60).memory_.total_samples == 60


def test_before_the_first_sample() -> None:
    clf = IncrementalClassifier(**QUICK)
    for ask in (lambda: clf.predict(X), lambda: clf.memory_, lambda: clf.forget([1]), lambda: clf.save("nowhere")):
        with pytest.raises(NotFittedError):
            ask()
    assert not hasattr(clf, "classes_")
    with pytest.raises(InputError, match="no method named 'icral'; did you mean 'icarl'"):
        IncrementalClassifier(method="icral").fit(X, y)
    with pytest.raises(ValueError, match="label 9 is not in classes"):
        clf.partial_fit(*digits(9), classes=[0, 1])


def test_a_run_goes_on_as_a_stream(tmp_path: Path) -> None:
    scenario = remem.scenario("digits", phases=2)
    result = remem.run(scenario, method="lucir", out=tmp_path / "run", settings={"train.epochs": 2})
    clf = IncrementalClassifier.from_run(tmp_path / "run")
    rows = np.concatenate([phase.eval_samples.rows for phase in scenario.phases])
    labels = np.array(scenario.class_names)[np.concatenate([phase.eval_samples.labels for phase in scenario.phases])]
    assert clf.score(scenario.eval_bank.read(rows), labels) == result.last_accuracy
    assert clf.memory_.total_samples == sum(result.phases[-1].held_per_class.values())
    clf.partial_fit(IMAGES[:30, :, :, None], ["new"] * 30)
    assert len(clf.classes_) == 11


def test_a_trained_module_is_adopted_with_its_weights() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
    clf = IncrementalClassifier(**QUICK, backbone=module).adopt(*digits(0, 1, 2))
    weights = clf.stream_.episode.learner.state()
    for name, value in module.state_dict().items():
        assert weights[f"backbone.levels.0.{name}"].equal(value)
    clf.partial_fit(*digits(3, 4))
    assert len(clf.classes_) == 5
    with pytest.raises(InputError, match="backbone: 'mlp' given; expected a module with trained weights"):
        IncrementalClassifier(backbone="mlp").adopt(X, y)
