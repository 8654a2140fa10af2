"""Calibrates the nearest-mean readout of an episode, for the model that is saved of it: of a run or of a stream."""

from remem.episode import Episode
from remem.evaluation.calibration import fit_scale
from remem.evaluation.metrics import FloatArray


def fit_held(episode: Episode, means: FloatArray) -> float:
    """The scale of the readout, fitted on all held samples. Several processes divide the work, so all must call it.

    `means` are the episode's own class means; row k is class k.
    """
    described, labels = episode.describe_held()
    return fit_scale(described.features, labels, means, described.mirrored)
