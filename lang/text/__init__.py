"""The text form of algorithms: expressions and kernels as people read and write them, and back.

`format_node` writes one expression, `print_kernel` a whole pipeline, `parse_kernel` reads one. The reader (and Lark with
it) is imported only when something is read. Nothing that is read is ever evaluated as Python.
"""

from tilewright.lang.text.expression import format_node

__all__ = ["format_node"]
