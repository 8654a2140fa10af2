"""A model that keeps learning: scikit-learn's estimator, streams over any number of updates, deletion and saving."""
