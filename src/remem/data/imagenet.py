"""ImageNet: all 1000 classes, the two published subsets of 100 classes, and mini-imagenet with 48 x 48 images."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from remem.data.folder import check_tree, class_folders, load_tree
from remem.data.orders import subset_labels
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import Dataset, DatasetEntry, data_root, missing
from remem.errors import DamagedFileError, InputError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES = 1000
SUBSETS = ("imagenet-subset-lucir", "imagenet-subset-podnet")


def stored_side(size: int) -> int:
    """Side of the stored squares: 256 for network inputs of 224, and in proportion for other sizes."""
    return -(-size * 8 // 7)


def _tree(name: str, folder: str, settings: DataSettings) -> Path:
    root = data_root(settings)
    for split in ("train", "val"):
        if not (root / folder / split).is_dir():
            raise missing(name, f"{folder}/{split}/<class>/<image>", root)
    return root / folder


def _classes(name: str, tree: Path) -> tuple[str, ...]:
    """The WordNet ids of the data set; published subsets are positions in the sorted list of all 1000 ids."""
    ids = class_folders(tree / "train")
    if len(ids) != CLASSES:
        raise DamagedFileError(f"{name}: {len(ids)} class folders in {tree / 'train'}; expected all {CLASSES}")
    return tuple(ids[place] for place in subset_labels(name)) if name in SUBSETS else ids


def load_imagenet(name: str, settings: DataSettings) -> Dataset:
    """Stores squares of 256 pixels; the network sees 224 (resized crops in training, else the centre)."""
    tree = _tree(name, "imagenet", settings)
    preprocessing = Preprocessing(mean=MEAN, std=STD, augment="resized-crop", flip=True)
    size = stored_side(settings.side or 224)
    return load_tree(name, tree, settings, preprocessing=preprocessing, classes=_classes(name, tree), size=size)


def check_imagenet(name: str, settings: DataSettings) -> list[str]:
    try:
        tree = _tree(name, "imagenet", settings)
        classes = _classes(name, tree)
    except InputError as error:
        return [str(error)]
    return check_tree(name, tree, settings, classes)


def load_mini(settings: DataSettings) -> Dataset:
    tree = _tree("mini-imagenet", "mini-imagenet", settings)
    preprocessing = Preprocessing(mean=MEAN, std=STD, augment="crop", flip=True)
    return load_tree("mini-imagenet", tree, settings, preprocessing=preprocessing, size=settings.side or 48)


def check_mini(settings: DataSettings) -> list[str]:
    try:
        tree = _tree("mini-imagenet", "mini-imagenet", settings)
    except InputError as error:
        return [str(error)]
    return check_tree("mini-imagenet", tree, settings)


def _entry(name: str, summary: str) -> DatasetEntry:
    load: Callable[[DataSettings], Dataset] = partial(load_imagenet, name)
    return DatasetEntry(summary, load, partial(check_imagenet, name), files=("imagenet/train", "imagenet/val"))


FULL = _entry("imagenet-full", "ImageNet: all 1000 classes of ILSVRC 2012, 224 px")
SUBSET_LUCIR = _entry("imagenet-subset-lucir", "100 ImageNet classes as LUCIR and AANets chose them")
SUBSET_PODNET = _entry("imagenet-subset-podnet", "100 ImageNet classes as PODNet chose them")
MINI = DatasetEntry(
    "100 ImageNet classes of 48 x 48 photos, 500 + 100 each",
    load_mini,
    check_mini,
    files=("mini-imagenet/train", "mini-imagenet/val"),
)
