"""The text form of algorithms: expressions and kernels as people read and write them, and back.

`format_node` writes one expression, `print_kernel` a whole pipeline, `parse_kernel` reads one. The reader (and Lark
with it) is imported only when something is read. Nothing that is read is ever evaluated as Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilewright.lang.text.expression import format_node

if TYPE_CHECKING:
    from tilewright.lang.extern import Extern
    from tilewright.lang.extern_stage import ExternStage
    from tilewright.lang.pipeline import Pipeline

__all__ = ["format_node", "parse_kernel", "print_kernel"]


def print_kernel(pipeline: Pipeline) -> str:
    """The kernel block of a pipeline; `parse_kernel` gives a pipeline with the same digest."""
    from tilewright.lang.text import kernel_writer  # nodes print themselves long before there are pipelines

    return kernel_writer.print_kernel(pipeline)


def parse_kernel(
    text: str, origin: str = "<text>", first_line: int = 1, externs: Iterable[Extern | ExternStage] = ()
) -> Pipeline:
    """The pipeline of a text with one kernel. `origin` (a file name) and `first_line` are for error messages; `externs`
    are the functions of the user's own that the text names.

    Raises ParseError (line, column, what was found and expected) for text that is no kernel, and the errors of
    lang.func and lang.expr, with their place in the text, for kernels that have no meaning.
    """
    from tilewright.lang.text import kernel_reader  # imports Lark

    return kernel_reader.parse_kernel(text, origin, first_line, externs)
