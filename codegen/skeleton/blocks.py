"""LLVM's text of one function, block by block, and the functions that all others may call."""

from __future__ import annotations

from collections.abc import Sequence

# Division rounds down. Divisors that the processor traps at (0, and -1 of the least number) are not divided by.
PRELUDE = """
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define internal i64 @quotient(i64 %a, i64 %b) alwaysinline nounwind {
  %beyond = add i64 %b, 1
  %special = icmp ult i64 %beyond, 2
  %divisor = select i1 %special, i64 1, i64 %b
  %towards0 = sdiv i64 %a, %divisor
  %rest = srem i64 %a, %divisor
  %inexact = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %divisor
  %apart = icmp slt i64 %signs, 0
  %below = and i1 %inexact, %apart
  %step = sext i1 %below to i64
  %down = add i64 %towards0, %step
  %by1 = mul i64 %a, %b
  %result = select i1 %special, i64 %by1, i64 %down
  ret i64 %result
}
define internal i64 @remainder(i64 %a, i64 %b) alwaysinline nounwind {
  %beyond = add i64 %b, 1
  %special = icmp ult i64 %beyond, 2
  %divisor = select i1 %special, i64 1, i64 %b
  %rest = srem i64 %a, %divisor
  %inexact = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %divisor
  %apart = icmp slt i64 %signs, 0
  %below = and i1 %inexact, %apart
  %step = select i1 %below, i64 %divisor, i64 0
  %result = add i64 %rest, %step
  ret i64 %result
}
define internal i64 @left(i64 %a, i64 %n) alwaysinline nounwind {
  %inside = icmp ult i64 %n, 64
  %shifted = shl i64 %a, %n
  %result = select i1 %inside, i64 %shifted, i64 0
  ret i64 %result
}
define internal i64 @right(i64 %a, i64 %n) alwaysinline nounwind {
  %most = call i64 @llvm.umin.i64(i64 %n, i64 63)
  %result = ashr i64 %a, %most
  ret i64 %result
}
"""


class Blocks:
    """The lines of a function so far. Where control does not come to, there are none."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = 0
        self.block, self.open = "entry", True  # the block under way, and whether control comes to where it is now
        self.reached: set[str] = set()

    def do(self, line: str) -> None:
        if self.open:
            self.lines.append("  " + line)

    def op(self, text: str) -> str:
        self.names += 1
        name = f"%t{self.names}"
        self.do(f"{name} = {text}")
        return name

    def labels(self, *names: str) -> list[str]:
        first = self.names + 1
        self.names += len(names)
        return [f"{n}{k}" for k, n in enumerate(names, first)]

    def leave(self, line: str, *labels: str) -> None:
        """End the block with a jump or a return."""
        if self.open:
            self.do(line)
            self.reached.update(labels)
        self.open = False

    def jump(self, label: str) -> None:
        self.leave(f"br label %{label}", label)

    def split(self, condition: str, yes: str, no: str) -> None:
        self.leave(f"br i1 {condition}, label %{yes}, label %{no}", yes, no)

    def start(self, label: str) -> None:
        """Begin a block, after the one before it if that goes on."""
        self.jump(label)
        self.block, self.open = label, label in self.reached
        if self.open:
            self.lines.append(f"{label}:")

    def merged(self, values: Sequence[str], blocks: Sequence[str]) -> str:
        """One of two values, by the block that control comes from."""
        return self.op("phi i64 " + ", ".join(f"[{v}, %{b}]" for v, b in zip(values, blocks, strict=True) if b))
