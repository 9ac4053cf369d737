"""Alias scopes of one LLVM function: metadata that states which memory accesses do not overlap.

A storage is a binding or an allocation (`MemRef.root`). Each has a scope. Its accesses name it in `!alias.scope`, the
accesses of all other storages in `!noalias`. The register block of each matrix product, its sums, has one more scope:
its factors do not overlap it, but may be the register blocks of other products.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from pydispatch.compiler.emit.llvm.module import ModuleWriter


class ProductRole(Enum):
    """Role of a memref in the matrix product whose code accesses it."""

    SUMS = auto()  # the register block: the sums C in memory, which no factor overlaps
    FACTOR = auto()  # A or B
    UNRELATED = auto()  # the access belongs to another operation, and may overlap register blocks


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
        others: Node that lists the scopes of all other storages. The node is empty until close() fills it in.
    """

    scope: int
    own: int
    others: int


class _BlockLists(NamedTuple):
    """Metadata nodes of the accesses of one product to a storage.

    Attributes:
        own_and_block: Node for `!alias.scope` of accesses to the sums: the scopes of the storage and of the product's
            register block.
        others_and_block: Node for `!noalias` of accesses to factors, which do not overlap the block either: the scopes
            of all other storages and of the block. The node is empty until close() fills it in.
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
        self._scopes: dict[str, _Scope] = {}  # by storage (`MemRef.root`), such as a binding
        self._domain = -1  # metadata node of the domain of all scopes of storages
        self._block_domain = -1  # metadata node of the domain of register blocks
        self._block_scope = -1  # metadata node of the scope of the register block of the current product
        self._block_lists: dict[str, _BlockLists] = {}  # of the current product, by storage
        # Nodes that close() fills in with the scopes of all storages but one and the scope of a register block:
        # (node, the storage that is left out, scope of the register block).
        self._open_lists: list[tuple[int, str, int]] = []

    def begin_product(self) -> int:
        """Create the scope of the register block of a matrix product, for the accesses of this product.

        A product C += A @ B accumulates one register block, a tile of C.

        Return the metadata node that lists the scope, for a call of `llvm.experimental.noalias.scope.decl` before the
        product. The call limits the scope to one run of the product: in a loop, the factors of an iteration may be the
        block of an earlier iteration.
        """
        module = self._module
        # The scopes of blocks have a domain of their own, besides that of storages. LLVM compares scopes within each
        # domain: an access outside of products lists no scope of this domain, so that it may overlap any block.
        if self._block_domain < 0:
            self._block_domain = module.metadata()
            module.set_metadata(self._block_domain, f"distinct !{{!{self._block_domain}}}")
        self._block_scope = module.metadata()
        module.set_metadata(self._block_scope, f"distinct !{{!{self._block_scope}, !{self._block_domain}}}")
        self._block_lists = {}
        return module.metadata(f"!{{!{self._block_scope}}}")

    def lists(self, root: str, role: ProductRole) -> ScopeLists:
        """Return the metadata nodes of an access to the storage `root`, which gets a scope on its first access.

        role: what the accessed memref is in the matrix product that `begin_product` has begun.
        """
        if root not in self._scopes:
            self._scopes[root] = self._new_scope()
        nodes = self._scopes[root]
        if role is ProductRole.UNRELATED:
            return ScopeLists(nodes.own, nodes.others)
        with_block = self._lists_with_block(root)
        if role is ProductRole.SUMS:
            return ScopeLists(with_block.own_and_block, nodes.others)
        return ScopeLists(nodes.own, with_block.others_and_block)

    def close(self) -> None:
        """Fill in the nodes that list the scopes of other storages, now that all storages are known."""
        # Storage -> references to the scopes of all other storages.
        other_scopes = {
            root: [f"!{nodes.scope}" for other, nodes in self._scopes.items() if other != root] for root in self._scopes
        }
        for root, nodes in self._scopes.items():
            self._module.set_metadata(nodes.others, "!{" + ", ".join(other_scopes[root]) + "}")
        # The nodes that factors of products list: they overlap neither other storages nor the product's register block.
        for node, root, block_scope in self._open_lists:
            self._module.set_metadata(node, "!{" + ", ".join([*other_scopes[root], f"!{block_scope}"]) + "}")

    def _new_scope(self) -> _Scope:
        """Create the alias scope of a storage, and two nodes: one that lists this scope alone, and an empty one.

        close() fills the empty node in with the scopes of all other storages. The first call creates the domain of the
        scopes, too: domains and scopes are distinct nodes that begin with themselves.
        """
        module = self._module
        if self._domain < 0:
            self._domain = module.metadata()
            module.set_metadata(self._domain, f"distinct !{{!{self._domain}}}")
        scope = module.metadata()
        module.set_metadata(scope, f"distinct !{{!{scope}, !{self._domain}}}")
        return _Scope(scope, own=module.metadata(f"!{{!{scope}}}"), others=module.metadata())

    def _lists_with_block(self, root: str) -> _BlockLists:
        """Return two lists of scopes, each with that of the current product's register block; create them on first use.

        One lists the scope of the storage `root` too, the other those of all other storages, which close() fills in.
        """
        assert self._block_scope >= 0, "a register block is accessed outside of a product"
        if root not in self._block_lists:
            own_and_block = self._module.metadata(f"!{{!{self._scopes[root].scope}, !{self._block_scope}}}")
            others_and_block = self._module.metadata()
            self._block_lists[root] = _BlockLists(own_and_block, others_and_block)
            self._open_lists.append((others_and_block, root, self._block_scope))
        return self._block_lists[root]
