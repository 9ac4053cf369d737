"""Alias scopes of one LLVM function: metadata that states which memory accesses do not overlap.

A storage is a binding or an allocation (`MemRef.root`). Each has a scope. Its accesses name it in `!alias.scope`, the
accesses of all other storages in `!noalias`. The register block of each matrix product, its sums, has one more scope:
its factors do not overlap it, but may be the register blocks of other products.
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
    """

    scope: int
    own: int
    others: int


class _BlockLists(NamedTuple):
    """Metadata nodes of the accesses of one product to a storage.

    Attributes:
        own_and_block: Node that lists the scopes of the storage and of the product's register block.
        others_and_block: Node that lists the scopes of all other storages and that of the register block, which close()
            fills in.
    """

    own_and_block: int
    others_and_block: int


class AliasScopes:
    """Table of the alias scopes of the storages that one function accesses.

    `FunctionEmitter` creates it, calls `lists` for each access, and `close` after the last one.

    Args:
        module: The module that the metadata is added to.
    """

    def __init__(self, module: ModuleWriter) -> None:
        """Start without scopes; -1 stands for a metadata node that is not created yet."""
        self._module = module
        self._scopes: dict[str, _Scope] = {}  # by storage
        self._domain = -1  # metadata node of the domain of all scopes of storages
        self._block_domain = -1  # metadata node of the domain of register blocks
        self._block_scope = -1  # metadata node of the scope of the register block of the current product
        self._block_lists: dict[str, _BlockLists] = {}  # of the current product, by storage
        self._open_lists: list[tuple[int, str, int]] = []  # (node, storage, scope of a block): see `others_and_block`

    def begin_product(self) -> int:
        """Create the scope of the register block of a product, for later accesses with `block`.

        Return the metadata node that lists it, for a call of `llvm.experimental.noalias.scope.decl` before the product:
        in a loop, the factors of an iteration may be the block of an earlier iteration.
        """
        module = self._module
        if self._block_domain < 0:  # not that of storages: an access that lists no scope of a domain may overlap it
            self._block_domain = module.metadata()
            module.set_metadata(self._block_domain, f"distinct !{{!{self._block_domain}}}")
        self._block_scope = module.metadata()
        module.set_metadata(self._block_scope, f"distinct !{{!{self._block_scope}, !{self._block_domain}}}")
        self._block_lists = {}
        return module.metadata(f"!{{!{self._block_scope}}}")

    def lists(self, root: str, block: bool | None) -> ScopeLists:
        """Return the metadata nodes of an access to the storage `root`, which gets a scope on its first access.

        block: True for an access to the register block of the product that `begin_product` has begun, False for an
        access to a factor of it, which does not overlap the block. None for other accesses, which may overlap blocks.
        """
        if root not in self._scopes:
            self._scopes[root] = self._new_scope()
        nodes = self._scopes[root]
        if block is None:
            return ScopeLists(nodes.own, nodes.others)
        with_block = self._lists_with_block(root)
        if block:
            return ScopeLists(with_block.own_and_block, nodes.others)
        return ScopeLists(nodes.own, with_block.others_and_block)

    def close(self) -> None:
        """Fill in the nodes that list the scopes of other storages, now that all storages are known."""
        apart = {
            root: [f"!{others.scope}" for other, others in self._scopes.items() if other != root]
            for root in self._scopes
        }
        for root, nodes in self._scopes.items():
            self._module.set_metadata(nodes.others, "!{" + ", ".join(apart[root]) + "}")
        for node, root, block_scope in self._open_lists:
            self._module.set_metadata(node, "!{" + ", ".join([*apart[root], f"!{block_scope}"]) + "}")

    def _new_scope(self) -> _Scope:
        """Create the alias scope of a storage, the node that lists it alone, and an empty one that close() fills in."""
        module = self._module
        if self._domain < 0:
            self._domain = module.metadata()
            module.set_metadata(self._domain, f"distinct !{{!{self._domain}}}")
        scope = module.metadata()
        module.set_metadata(scope, f"distinct !{{!{scope}, !{self._domain}}}")
        return _Scope(scope, own=module.metadata(f"!{{!{scope}}}"), others=module.metadata())

    def _lists_with_block(self, root: str) -> _BlockLists:
        """Return the lists of a storage with the scope of the current register block, created on the first use."""
        assert self._block_scope >= 0, "a register block is accessed outside of a product"
        if root not in self._block_lists:
            own_and_block = self._module.metadata(f"!{{!{self._scopes[root].scope}, !{self._block_scope}}}")
            others_and_block = self._module.metadata()
            self._block_lists[root] = _BlockLists(own_and_block, others_and_block)
            self._open_lists.append((others_and_block, root, self._block_scope))
        return self._block_lists[root]
