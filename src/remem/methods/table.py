"""The table of methods: importing it registers every method that ships."""

import remem.methods.finetune
import remem.methods.icarl
import remem.methods.joint
import remem.methods.lwf  # noqa: F401
from remem.methods.method import METHODS

__all__ = ["METHODS"]
