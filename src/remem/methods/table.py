"""Methods by name. Each line gives the import path of an entry, so a misspelt name is refused without loading torch."""

from typing import TYPE_CHECKING

from remem.registry import Registry

if TYPE_CHECKING:
    from remem.methods.method import MethodEntry

METHODS: "Registry[MethodEntry]" = Registry("method")
METHODS.add_lazy("finetune", "remem.methods.finetune:ENTRY")
METHODS.add_lazy("joint", "remem.methods.joint:ENTRY")
METHODS.add_lazy("lwf", "remem.methods.lwf:ENTRY")
METHODS.add_lazy("icarl", "remem.methods.icarl:ENTRY")
METHODS.add_lazy("lucir", "remem.methods.lucir:ENTRY")
METHODS.add_lazy("podnet", "remem.methods.podnet:ENTRY")
METHODS.add_lazy("mnemonics", "remem.methods.mnemonics:ENTRY")
METHODS.add_lazy("icarl-aanets", "remem.methods.aanets:ICARL_AANETS")
METHODS.add_lazy("lucir-aanets", "remem.methods.aanets:LUCIR_AANETS")
METHODS.add_lazy("pod-aanets", "remem.methods.aanets:POD_AANETS")
