"""Lowered nests for programs of others: versioned JSON (see docs/export.md), and C.

document.py     the loop IR as plain data: the JSON document
expressions.py  its expressions, with names for what is shared
placement.py    where buffers lie in their memories
execute.py      runs a document on NumPy arrays
c_*.py          a document as C, on top of tilewright.h
"""

from tilewright.codegen.export.document import FORMAT, VERSION, document
from tilewright.codegen.export.execute import execute, read
from tilewright.codegen.export.export import Export, export

__all__ = ["FORMAT", "VERSION", "Export", "document", "execute", "export", "read"]
