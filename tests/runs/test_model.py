"""model.py and predict_inputs.py: a saved model gives the predictions of its run's evaluation."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import remem
from factories import IMAGES, blobs, opened, pictures, play, ready, write_folder
from remem.data.arrays import from_arrays
from remem.data.source import Dataset
from remem.errors import DamagedFileError, InputError
from remem.evaluation.calibration import PLAIN_SCALE, fit_scale
from remem.evaluation.metrics import class_means
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.model import Model, Prediction, load_model, save_model
from remem.runs.predict_inputs import open_inputs
from remem.runs.prepared import Prepared
from remem.runs.run import run_in_folder
from remem.storage.tensorfile import load_snapshot


def grey() -> Dataset:
    """One-channel images with words as labels."""
    words, sides = np.array(["ant", "bee", "cat", "dog", "eel", "fox"]), (pictures().train, pictures().test)
    parts = [part for side in sides for part in (side.read(np.arange(len(side.labels)))[..., :1], words[side.labels])]
    return from_arrays(*parts, name="grey")


CASES: dict[str, Callable[[], Prepared]] = {
    "images": lambda: ready(pictures()),
    "vectors": lambda: ready(blobs()),
    "lucir-aanets": lambda: ready(pictures(), {"method": {"name": "lucir-aanets"}}),
    "icarl-aanets": lambda: ready(blobs(), {"method": {"name": "icarl-aanets"}, "scenario": {"order": "seed:5"}}),
    "mnemonics": lambda: ready(pictures(), {"method": {"name": "mnemonics", "refine_steps": 1}}),
    "joint": lambda: ready(blobs(), {"method": {"name": "joint"}}),
    "resized crops": lambda: ready(pictures(), {"augment": {"kind": "resized-crop"}}),
    "words": lambda: ready(grey(), {"scenario": {"order": "seed:1"}}),
    "no exemplars": lambda: ready(blobs(), {"method": {"name": "finetune", "replay": False}}),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Prepared, Path]]:
    """Trains the run of a case once and returns it with its folder."""
    done: dict[str, tuple[Prepared, Path]] = {}

    def of(case: str) -> tuple[Prepared, Path]:
        if case not in done:
            prepared, out = CASES[case](), tmp_path_factory.mktemp("run")
            run_in_folder(prepared, out)
            done[case] = prepared, out
        return done[case]

    return of


Finished = Callable[[str], tuple[Prepared, Path]]


def eval_values(prepared: Prepared) -> Any:
    """The test samples in the order of evaluation."""
    phases = prepared.scenario.phases
    return prepared.scenario.eval_bank.read(np.concatenate([phase.eval_samples.rows for phase in phases]))


@pytest.mark.parametrize("case", [name for name in CASES if name != "no exemplars"])
def test_predictions_equal_those_of_evaluation(case: str, finished: Finished) -> None:
    prepared, out = finished(case)
    model = load_model(out)
    predictions = {head: model.predict(eval_values(prepared), head=head) for head in ("cnn", "nme")}
    with np.load(out / "predictions.npz", allow_pickle=False) as arrays:
        for head, prediction in predictions.items():
            assert prediction.classes.tolist() == arrays[f"{head}_2"].tolist()
            assert prediction.probabilities.argmax(axis=1).tolist() == arrays[f"{head}_2"].tolist()
            assert prediction.probabilities.sum(axis=1) == pytest.approx(np.ones(len(prediction.classes)))
    own = model.predict(eval_values(prepared))
    assert own.classes.tolist() == predictions[prepared.method.readout].classes.tolist()


def test_labels_are_the_names_of_the_data_set(finished: Finished) -> None:
    prepared, out = finished("words")
    model = load_model(out)
    names = [["ant", "bee", "cat", "dog", "eel", "fox"][label] for label in prepared.scenario.class_order]
    assert list(model.class_names) == names
    assert model.class_order == prepared.scenario.class_order
    prediction = model.predict(eval_values(prepared))
    assert prediction.labels == [names[k] for k in prediction.classes]


def test_probabilities_by_hand(finished: Finished) -> None:
    prepared, out = finished("vectors")
    model = load_model(out)
    values = eval_values(prepared)[:7]
    with torch.no_grad():
        output = model.network.eval()(torch.from_numpy(values))
    logits, features = output.logits.double().numpy(), output.features.double().numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    # The size of a batch may change the last bits of float32.
    assert model.predict(values, head="cnn").probabilities == pytest.approx(expected, rel=1e-5)
    means = load_file(out / "model.safetensors")["class_means"].numpy()
    assert np.linalg.norm(means, axis=1) == pytest.approx(np.ones(6))
    for row, chances in zip(features, model.predict(values, head="nme").probabilities, strict=True):
        unit = row / np.sqrt((row**2).sum())
        weights = np.exp([-model.scale / 2 * ((unit - mean) ** 2).sum() for mean in means])
        assert chances == pytest.approx(weights / weights.sum(), rel=1e-5)


def test_the_scale_of_the_means_is_that_of_the_held_samples(finished: Finished) -> None:
    """The whole way by hand, on a method of images whose means contain mirror images."""
    prepared, out = finished("images")
    episode = opened(prepared)
    play(episode, prepared)
    described, labels = episode.describe_held()
    assert described.mirrored is not None
    assert np.bincount(labels).tolist() == list(episode._memory.counts().values())
    means = class_means(described.features, labels, range(6), described.mirrored)
    assert load_model(out).scale == fit_scale(described.features, labels, means, described.mirrored)
    assert load_model(out).scale != PLAIN_SCALE


def test_a_scale_changes_no_label_and_older_files_have_the_plain_one(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("images")
    fitted, values = load_model(out), eval_values(prepared)
    saved = load_snapshot(out / "model.safetensors")
    tensors = dict(saved.tensors)
    means = tensors.pop("class_means").numpy()
    facts = {name: value for name, value in saved.facts.items() if name != "nme_scale"}
    save_model(tmp_path / "model.safetensors", facts, tensors, means)
    older = load_model(tmp_path)
    assert older.scale == PLAIN_SCALE
    assert older.predict(values, head="nme").classes.tolist() == fitted.predict(values, head="nme").classes.tolist()
    for scale in (0, -1.0, math.nan, "much"):
        save_model(tmp_path / "model.safetensors", {**facts, "nme_scale": scale}, tensors, means)
        with pytest.raises(DamagedFileError, match="not a whole model"):
            load_model(tmp_path)


def test_right_answers_read_as_sure_as_they_are(finished: Finished) -> None:
    prepared, out = finished("vectors")
    prediction = load_model(out).predict(eval_values(prepared), head="nme")
    truth = np.concatenate([phase.eval_samples.labels for phase in prepared.scenario.phases])
    assert abs(prediction.probabilities.max(axis=1).mean() - np.mean(prediction.classes == truth)) < 0.1


def test_a_model_takes_whatever_a_sample_is(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("images")
    model, values = load_model(out), eval_values(prepared)[:3]
    expected = model.predict(values)
    for row, image in enumerate(values):
        Image.fromarray(image).save(tmp_path / f"{row}.png")
    paths = [tmp_path / f"{row}.png" for row in range(3)]
    np.savez(tmp_path / "x.npz", x=values)
    many: list[Any] = [tmp_path, str(tmp_path), paths, tuple(map(str, paths)), tmp_path / "x.npz", list(values)]
    many += [[Image.open(path) for path in paths], [paths[0], Image.open(paths[1]), values[2]], values]
    many.append([values[0].repeat(2, axis=0).repeat(2, axis=1), *values[1:]])  # arrays of different sizes
    for samples in many:
        assert model.predict(samples).labels == expected.labels
        assert model.predict(samples).probabilities == pytest.approx(expected.probabilities, rel=1e-5)
    one: list[Any] = [paths[0], str(paths[0]), Image.open(paths[0]), values[0], [values[0]], [paths[0]]]
    for sample in one:
        assert model.predict(sample).labels == expected.labels[:1]
    vectors = load_model(finished("vectors")[1])
    rows = eval_values(finished("vectors")[0])[:2]
    assert (
        vectors.predict(rows[0]).labels == vectors.predict(rows.tolist()).labels[:1] == vectors.predict(rows).labels[:1]
    )
    words = load_model(finished("words")[1])
    greys = eval_values(finished("words")[0])[:2]
    for sample in (greys[0], greys[0, :, :, 0], Image.fromarray(greys[0, :, :, 0])):
        assert words.predict(sample).labels == words.predict(greys).labels[:1]
    assert words.predict(greys[..., 0]).labels == words.predict(greys).labels  # two grey images, not one


def test_strange_samples_are_refused(finished: Finished, tmp_path: Path) -> None:
    images, vectors = load_model(finished("images")[1]), load_model(finished("vectors")[1])
    with pytest.raises(InputError, match="no such file or folder"):
        images.predict([tmp_path / "absent.png"])
    with pytest.raises(InputError, match=r"values: image files given, but the model takes samples of shape \(6,\)"):
        vectors.predict(Image.new("L", (4, 4)))
    empty: list[Any] = [[], np.zeros((0, 8, 8, 3), np.uint8), np.zeros(0)]
    for nothing in empty:
        with pytest.raises(InputError, match="no samples"):
            images.predict(nothing)
    with pytest.raises(InputError, match="expected images"):
        images.predict(np.zeros((2, 8, 8, 3)))


def test_best_classes_start_with_the_prediction() -> None:
    chances = np.array([[0.2, 0.4, 0.4], [0.5, 0.25, 0.25]])
    prediction = Prediction(np.array([2, 0]), chances, ("a", "b", "c"))
    assert prediction.best(2).tolist() == [[2, 1], [0, 1]]
    assert prediction.best(9).tolist() == [[2, 1, 0], [0, 1, 2]]
    assert prediction.labels == ["c", "a"]
    assert chances.tolist() == [[0.2, 0.4, 0.4], [0.5, 0.25, 0.25]]


def test_predictions_in_several_blocks(finished: Finished) -> None:
    prepared, out = finished("vectors")
    few = eval_values(prepared)
    many = np.tile(few, (11, 1))  # 528 samples: two blocks of 256 and a smaller one
    prediction = load_model(out).predict(many)
    assert prediction.classes.tolist() == 11 * load_model(out).predict(few).classes.tolist()
    assert prediction.probabilities.shape == (528, 6)


def test_model_file_is_sufficient(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("lucir-aanets")
    shutil.copy(out / "model.safetensors", tmp_path)
    expected = load_model(out).predict(eval_values(prepared))
    for place in (tmp_path, tmp_path / "model.safetensors", str(tmp_path)):
        assert remem.load_model(place).predict(eval_values(prepared)).classes.tolist() == expected.classes.tolist()


def test_images_of_another_size_are_resized_and_other_shapes_refused(finished: Finished) -> None:
    prepared, out = finished("images")
    model, small = load_model(out), eval_values(prepared)
    large = small.repeat(2, axis=1).repeat(2, axis=2)  # every pixel four times: block means restore it
    assert model.predict(large).classes.tolist() == model.predict(small).classes.tolist()
    with pytest.raises(InputError, match=r"values: samples of shape \(8, 8, 1\); expected images of shape \(8, 8, 3\)"):
        model.predict(small[..., :1])
    with pytest.raises(InputError, match=r"samples of shape \(192,\)"):
        model.predict(small.reshape(len(small), -1))
    with pytest.raises(InputError, match="no samples"):
        model.predict(small[:0])
    with pytest.raises(InputError, match=r"expected vectors of shape \(6,\)"):
        load_model(finished("vectors")[1]).predict(small)


def test_method_without_exemplars_has_no_class_means(finished: Finished) -> None:
    prepared, out = finished("no exemplars")
    model = load_model(out)
    assert model.class_means is None
    with np.load(out / "predictions.npz", allow_pickle=False) as arrays:
        assert model.predict(eval_values(prepared)).classes.tolist() == arrays["cnn_2"].tolist()
    with pytest.raises(InputError, match="nme given, but this model of finetune has no class means; expected cnn"):
        model.predict(eval_values(prepared), head="nme")


def rewritten(out: Path, place: Path, **changes: Any) -> Path:
    """The model of a run with changed facts, written by `save_model`."""
    saved = load_snapshot(out / "model.safetensors")
    tensors = dict(saved.tensors)
    means = tensors.pop("class_means").numpy()
    save_model(place / "model.safetensors", {**saved.facts, **changes}, tensors, means)
    return place


def test_model_of_an_absent_device_runs_on_the_cpu(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("vectors")
    absent = "cuda" if torch.backends.mps.is_available() else "mps"
    config = json.loads((out / "result.json").read_text())["config"]
    config["train"] |= {"device": absent, "precision": "fp16", "devices": 4, "strategy": "ddp"}
    model = load_model(rewritten(out, tmp_path, config=config))
    assert (
        model.predict(eval_values(prepared)).classes.tolist()
        == load_model(out).predict(eval_values(prepared)).classes.tolist()
    )


def damaged(damage: str, out: Path, place: Path) -> Path:
    """A copy of a run's model with one kind of damage."""
    path, content = place / "model.safetensors", bytearray((out / "model.safetensors").read_bytes())
    if damage == "cut":
        content = content[:-9]
    elif damage == "flipped":
        content[-1] ^= 1
    elif damage == "empty":
        content = bytearray()
    elif damage == "names":
        return rewritten(out, place, class_names=["a", "b"])
    elif damage == "shape":
        return rewritten(out, place, shape=[9])
    elif damage == "method":
        config = json.loads((out / "result.json").read_text())["config"]
        return rewritten(out, place, config={**config, "method": {"name": "mine"}})
    elif damage == "foreign":
        save_file({"weight": torch.ones(2)}, path)
        return place
    path.write_bytes(content)
    return place


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("cut", "not a whole model"),
        ("flipped", "does not match its checksum"),
        ("empty", "not a whole model"),
        ("foreign", "not a whole model"),
        ("names", "2 class names for 6 classes"),
        ("shape", "not a whole model"),
        ("method", "no method named 'mine'"),
    ],
)
def test_damaged_model_is_refused(damage: str, message: str, finished: Finished, tmp_path: Path) -> None:
    _, out = finished("vectors")
    place = damaged(damage, out, tmp_path)
    with pytest.raises(DamagedFileError, match=message) as error:
        load_model(place)
    assert str(error.value).startswith(str(tmp_path / "model.safetensors"))
    assert "\n" not in str(error.value)


def test_model_of_the_first_version_without_checksum_and_means(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("vectors")
    saved = load_snapshot(out / "model.safetensors")
    config = {**saved.facts["config"], "train": dict(saved.facts["config"]["train"])}
    config["train"]["rate"] = config["train"].pop("lr")  # its name in format 1
    tensors = {name: value for name, value in saved.tensors.items() if name != "class_means"}
    head = {"format": 1, **saved.facts, "config": config}
    save_file(tensors, tmp_path / "model.safetensors", {"remem": json.dumps(head)})
    model = load_model(tmp_path)
    assert model.config == load_model(out).config
    cnn = load_model(out).predict(eval_values(prepared), head="cnn")
    assert model.predict(eval_values(prepared), head="cnn").classes.tolist() == cnn.classes.tolist()
    with pytest.raises(InputError, match="has no class means"):
        model.predict(eval_values(prepared))


def test_unfinished_run_is_refused(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("vectors")

    def stop(event: Event) -> None:
        if isinstance(event, EpochEnded) and event.phase == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_folder(prepared, tmp_path / "stopped", stop)
    shutil.copy(out / "model.safetensors", tmp_path / "stopped")  # of an earlier run
    with pytest.raises(InputError, match="not finished; go on with `remem resume"):
        load_model(tmp_path / "stopped")
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DamagedFileError, match="expected the folder of a finished run"):
            load_model(place)


def test_user_defined_network_cannot_be_rebuilt(tmp_path: Path) -> None:
    scenario = remem.scenario(blobs(), phases=2)
    settings = {"train.epochs": 1, "finetune.epochs": 0}
    remem.run(scenario, backbone=torch.nn.Linear(6, 4), budget=40, settings=settings, out=tmp_path)
    with pytest.raises(InputError, match=r"a module of your own \(own:Linear-.*\), which no file can rebuild"):
        load_model(tmp_path)


def classes_of(model: Model, path: Path) -> tuple[tuple[str, ...], list[int]]:
    inputs = open_inputs(path, model)
    blocks = model.blocks(inputs.reader, len(inputs.names))
    return inputs.names, np.concatenate([block.classes for block in blocks]).tolist()


def test_image_files_are_read_like_a_folder_data_set(tmp_path: Path) -> None:
    write_folder(tmp_path / "data", pictures(side=9))
    layers = {"data": {"name": f"folder:{tmp_path / 'data'}", "cache": False, "image_size": 8}}
    run_in_folder(prepare(compose(IMAGES, layers)), tmp_path / "run")
    model = load_model(tmp_path / "run")
    val = tmp_path / "data" / "val"
    expected = sorted(path.relative_to(val).as_posix() for path in val.rglob("*.png"))
    (val / ".hidden").mkdir()
    for name in (".hidden/a.png", "class 0/.b.png", "notes.txt"):
        (val / name).write_text("no picture")
    names, classes = classes_of(model, val)
    assert list(names) == expected
    with np.load(tmp_path / "run" / "predictions.npz", allow_pickle=False) as arrays:
        assert classes == arrays["nme_2"].tolist()
    assert classes_of(model, val / names[-1]) == ((Path(names[-1]).name,), classes[-1:])


def test_grey_models_take_image_files_and_arrays(finished: Finished, tmp_path: Path) -> None:
    prepared, out = finished("words")
    model, values = load_model(out), eval_values(prepared)
    for place, image in enumerate(values):
        Image.fromarray(image[:, :, 0]).save(tmp_path / f"{place:02}.PNG")
    expected = model.predict(values).classes.tolist()
    assert classes_of(model, tmp_path)[1] == expected
    np.savez(tmp_path / "both.npz", x=values[:3], x_test=values[3:])
    assert classes_of(model, tmp_path / "both.npz") == (("0", "1", "2"), expected[:3])
    np.savez(tmp_path / "test.npz", x_test=values[3:])
    assert classes_of(model, tmp_path / "test.npz")[1] == expected[3:]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "no such file or folder"),
        ("empty", "no images; expected .jpg"),
        ("text.txt", "not a known kind of file"),
        ("broken.png", "not a whole JPEG, PNG, WebP, BMP, PPM or TIFF image"),
        ("broken.npz", "not an .npz archive; expected one with arrays such as x"),
        ("other.npz", r"no array 'x' or 'x_test'; .*, found "),
        ("vectors.npz", r"vectors.npz: x: samples of shape \(6,\); expected images of shape \(8, 8, 3\)"),
    ],
)
def test_unusable_inputs_are_refused(name: str, message: str, finished: Finished, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for text in ("text.txt", "broken.png", "broken.npz"):
        (tmp_path / text).write_bytes(b"PK\x03\x04 and then nothing")
    np.savez(tmp_path / "other.npz", y=np.zeros(3))
    np.savez(tmp_path / "vectors.npz", x=np.zeros((2, 6)))
    model = load_model(finished("images")[1])
    with pytest.raises(InputError, match=message) as error:
        open_inputs(tmp_path / name, model)
    assert str(tmp_path / name) in str(error.value)


def test_model_of_vectors_refuses_image_files(finished: Finished, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"image files given, but the model takes samples of shape \(6,\)"):
        open_inputs(tmp_path, load_model(finished("vectors")[1]))
