"""remem: class-incremental learning under a strict memory budget."""

__version__ = "0.1.0"
