"""Builder of the text of one LLVM function: instructions, labels, and index arithmetic with constant folding."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydispatch.compiler.emit.llvm.values import Index
from pydispatch.compiler.kernel_ir.indices import IndexArithmetic


def as_index(operand: Index) -> Index:
    """Return an operand that is a literal as an int, "-3" as -3; return any other operand unchanged."""
    if isinstance(operand, str) and operand.lstrip("-").isdigit():
        return int(operand)
    return operand


@dataclass
class Phi:
    """A phi instruction whose incoming edges are added one by one.

    Attributes:
        slot: Position in the body's lines where it is written; -1 until it is placed.
        name: Its name, such as "%p7".
        type: Its LLVM type.
        incoming: The edges: (value, label of the predecessor without sigil).
    """

    slot: int
    name: str
    type: str
    incoming: list[tuple[str, str]] = field(default_factory=list)


class Body(IndexArithmetic[str]):
    """Builder of the text of one LLVM function, to which its emitter appends instructions and labels.

    `FunctionEmitter` creates it, and calls `text` after the last instruction.

    Names of values include the sigil ("%v3"), labels do not ("then4"). `label` is the label of the block being written.
    """

    def __init__(self) -> None:
        """Begin a function without instructions, in its entry block."""
        self.entry: list[str] = []  # instructions of the entry block
        self.lines: list[str] = []  # all other lines
        self.label = "entry"
        self._name_count = 0  # values and labels that were named: the suffix of the last name
        self._phis: list[Phi] = []  # written once all their incoming values are known

    def name(self, hint: str = "v") -> str:
        """Return a new value name that begins with `hint`."""
        self._name_count += 1
        return f"%{hint}{self._name_count}"

    def new_label(self, hint: str) -> str:
        """Return a new block label that begins with `hint`, without sigil."""
        self._name_count += 1
        return f"{hint}{self._name_count}"

    def emit(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def let(self, text: str, hint: str = "v") -> str:
        """Append an instruction with a result, and return the result's name, which begins with `hint`."""
        name = self.name(hint)
        self.lines.append(f"  {name} = {text}")
        return name

    def let_entry(self, text: str, hint: str = "e") -> str:
        """Append the instruction `text` to the entry block, which dominates all others, and return its result's name.

        Its operands must be defined in the entry block too. hint: beginning of the name.
        """
        name = self.name(hint)
        self.entry.append(f"  {name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin the block of a label; instructions are appended to it from now on."""
        self.lines.append(f"{label}:")
        self.label = label

    def br(self, label: str, suffix: str = "") -> None:
        """Append a branch; `suffix` is its metadata as text that begins with a comma, or "" for none."""
        self.emit(f"br label %{label}{suffix}")

    def cond_br(self, condition: str, then: str, other: str, suffix: str = "") -> None:
        """Append a branch to the label `then` if the i1 `condition` is true, else to the label `other`.

        `suffix` is its metadata as text that begins with a comma, or "" for none.
        """
        self.emit(f"br i1 {condition}, label %{then}, label %{other}{suffix}")

    def phi(self, type_: str) -> Phi:
        """Create a phi at this position; add edges to `incoming` until the function is finished."""
        phi = self.detached_phi(type_)
        self.place_phi(phi)
        return phi

    def detached_phi(self, type_: str) -> Phi:
        """Create a named phi that place_phi() inserts at the start of its block."""
        return Phi(-1, self.name("p"), type_)

    def place_phi(self, phi: Phi) -> None:
        """Insert a phi at the current position, the start of its block."""
        phi.slot = len(self.lines)
        self.lines.append("")
        self._phis.append(phi)

    def text(self) -> str:
        """Return the text of the function's body, with the edges of all phis."""
        for phi in self._phis:
            edges = ", ".join(f"[ {value}, %{label} ]" for value, label in phi.incoming)
            self.lines[phi.slot] = f"  {phi.name} = phi {phi.type} {edges}"
        return "\n".join(["entry:", *self.entry, *self.lines])

    # Index arithmetic. Offsets inside an object never overflow a signed 64-bit number, hence nsw.

    def plus(self, lhs: Index, rhs: Index) -> Index:
        """Return the sum of two indices, which may be numbers in text."""
        return super().plus(as_index(lhs), as_index(rhs))

    def minus(self, lhs: Index, rhs: Index) -> Index:
        """Return the difference of two indices, which may be numbers in text."""
        return super().minus(as_index(lhs), as_index(rhs))

    def times(self, lhs: Index, rhs: Index) -> Index:
        """Return the product of two indices, which may be numbers in text."""
        return super().times(as_index(lhs), as_index(rhs))

    def _sum(self, lhs: str, rhs: Index) -> str:
        """Emit an addition of indices, which does not overflow."""
        return self.let(f"add nsw i64 {lhs}, {rhs}")

    def _difference(self, lhs: Index, rhs: str) -> str:
        """Emit a subtraction of indices, which does not overflow."""
        return self.let(f"sub nsw i64 {lhs}, {rhs}")

    def _product(self, lhs: str, rhs: Index) -> str:
        """Emit a multiplication of indices, which does not overflow."""
        return self.let(f"mul nsw i64 {lhs}, {rhs}")

    def shift_right(self, a: Index, count: int) -> Index:
        """Return a / 2^count, rounded down, for an offset that is not negative."""
        a = as_index(a)
        if count == 0:
            return a
        return a >> count if isinstance(a, int) else self.let(f"lshr i64 {a}, {count}")

    def low_bits(self, a: Index, mask: int) -> Index:
        """Return `a & mask` of an offset that is not negative."""
        a = as_index(a)
        return a & mask if isinstance(a, int) else self.let(f"and i64 {a}, {mask}")

    def byte_address(self, pointer: str, offset: Index) -> str:
        """Return a pointer `offset` bytes further, inside the same object."""
        return pointer if offset == 0 else self.let(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
