"""Codecs: how exactly a sample is stored. Numpy and Pillow only; knows nothing of data sets, memory or learning."""
