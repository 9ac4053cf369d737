"""Alias scopes of one LLVM function: metadata that states which memory accesses do not overlap.

A storage is a binding or an allocation (`MemRef.root`). Each has a scope. Its accesses name it in `!alias.scope`, the
accesses of all other storages in `!noalias`. Register blocks, the sums of matrix products, have one more scope.
"""

from __future__ import annotations

from typing import NamedTuple

from pydispatch.compiler.emit.llvm.module import ModuleWriter


class ScopeLists(NamedTuple):
    """Metadata nodes that an access names.

    Attributes:
        own: Node that lists the scopes of the access, for `!alias.scope`.
        others: Node that lists scopes whose accesses do not overlap it, for `!noalias`.
    """

    own: int
    others: int


class _Scope(NamedTuple):
    """Metadata nodes of the alias scope of a storage.

    Attributes:
        scope: The scope itself.
        own: Node that lists the scope alone.
        others: Node that lists the scopes of all other storages, which close() fills in.
        own_and_block: Node that lists the scope and the scope of register blocks; -1 until an access needs it.
        others_and_block: Node that lists the scopes of all other storages and the scope of register blocks; -1 until
            an access needs it.
    """

    scope: int
    own: int
    others: int
    own_and_block: int = -1
    others_and_block: int = -1


class AliasScopes:
    """Table of the alias scopes of the storages that one function accesses.

    `FunctionEmitter` creates it, calls `lists` for each access, and `close` after the last one.

    Args:
        module: The module that the metadata is added to.
    """

    def __init__(self, module: ModuleWriter) -> None:
        """Begin without scopes."""
        self._module = module
        self._scopes: dict[str, _Scope] = {}  # by storage
        self._domain = -1  # metadata node of the domain of all scopes of storages; -1 before there is one
        self._block_scope = -1  # metadata node of the scope of all register blocks; -1 before there is one

    def lists(self, root: str, block: bool | None) -> ScopeLists:
        """Return the metadata nodes of an access to the storage `root`, which gets a scope on its first access.

        block: True for an access to a register block, False for an access to an operand of its product, which never
        overlaps the block. None for other accesses, which may overlap blocks.
        """
        if root not in self._scopes:
            self._scopes[root] = self._new_scope()
        if block is None:
            return ScopeLists(self._scopes[root].own, self._scopes[root].others)
        nodes = self._with_block_scope(root)
        if block:
            return ScopeLists(nodes.own_and_block, nodes.others)
        return ScopeLists(nodes.own, nodes.others_and_block)

    def close(self) -> None:
        """Fill in the nodes that list the scopes of other storages, now that all storages are known.

        A storage may have two such nodes: the second also lists the scope of register blocks.
        """
        for root, nodes in self._scopes.items():
            apart = [f"!{others.scope}" for other, others in self._scopes.items() if other != root]
            self._module.set_metadata(nodes.others, "!{" + ", ".join(apart) + "}")
            if nodes.others_and_block >= 0:
                with_block = [*apart, f"!{self._block_scope}"]
                self._module.set_metadata(nodes.others_and_block, "!{" + ", ".join(with_block) + "}")

    def _new_scope(self) -> _Scope:
        """Create the alias scope of a storage, the node that lists it alone, and an empty one that close() fills in."""
        module = self._module
        if self._domain < 0:
            self._domain = module.metadata()
            module.set_metadata(self._domain, f"distinct !{{!{self._domain}}}")
        scope = module.metadata()
        module.set_metadata(scope, f"distinct !{{!{scope}, !{self._domain}}}")
        return _Scope(scope, own=module.metadata(f"!{{!{scope}}}"), others=module.metadata())

    def _with_block_scope(self, root: str) -> _Scope:
        """Return the nodes of a storage; on the first call, create its lists with the scope of register blocks.

        That scope is in a domain of its own, so that an access that lists no scope of the domain may overlap blocks.
        """
        module = self._module
        if self._block_scope < 0:
            domain, self._block_scope = module.metadata(), module.metadata()
            module.set_metadata(domain, f"distinct !{{!{domain}}}")
            module.set_metadata(self._block_scope, f"distinct !{{!{self._block_scope}, !{domain}}}")
        nodes = self._scopes[root]
        if nodes.own_and_block < 0:
            own_and_block = module.metadata(f"!{{!{nodes.scope}, !{self._block_scope}}}")
            nodes = nodes._replace(own_and_block=own_and_block, others_and_block=module.metadata())
            self._scopes[root] = nodes
        return nodes
