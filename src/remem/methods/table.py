"""The table of methods: importing it registers every method that ships."""

import remem.methods.aanets
import remem.methods.finetune
import remem.methods.icarl
import remem.methods.joint
import remem.methods.lucir
import remem.methods.lwf
import remem.methods.mnemonics
import remem.methods.podnet  # noqa: F401
from remem.methods.method import METHODS

__all__ = ["METHODS"]
