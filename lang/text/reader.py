"""Reading with a Lark grammar: indented blocks, and errors that say in plain words what was found and expected."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, NoReturn

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.indenter import Indenter

from tilewright.lang.errors import Location, ParseError
from tilewright.lang.text.blocks import VERSION

NAMES = {
    "NAME": "a name", "QUOTED": "a name", "INT": "an integer", "FLOAT": "a number", "HEX": "0x digits",
    "STRING": "a string", "_NL": "the end of the line", "_INDENT": "an indented block",
    "_DEDENT": "the end of the block", "$END": "the end of the text", "ASSIGN": "= or += and the like",
}  # fmt: skip
FOUND = {"_NL": NAMES["_NL"], "_INDENT": "an indented line", "_DEDENT": NAMES["_DEDENT"], "$END": NAMES["$END"]}
EXPRESSION = {"NAME", "INT", "FLOAT", "QUOTED", "MINUS", "TILDE", "LPAR"}
OPERATORS = {"COMPARE", "SHIFT", "TIMES", "BAR", "CARET", "AMPERSAND", "PLUS", "MINUS", "POWER"}
FOLLOWERS = {"BANG", "DOT"}  # what may follow a name besides operators: not worth telling


class Blocks(Indenter):
    """Indentation as tokens; ignored inside brackets."""

    # Lark declares these as abstract properties and reads them as plain attributes
    NL_type = "_NL"  # pyright: ignore[reportAssignmentType]
    OPEN_PAREN_types = ["LPAR", "LSQB", "LBRACE"]  # pyright: ignore[reportAssignmentType]
    CLOSE_PAREN_types = ["RPAR", "RSQB", "RBRACE"]  # pyright: ignore[reportAssignmentType]
    INDENT_type = "_INDENT"  # pyright: ignore[reportAssignmentType]
    DEDENT_type = "_DEDENT"  # pyright: ignore[reportAssignmentType]
    tab_len = 8  # pyright: ignore[reportAssignmentType]

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return super().process(_from_first_line(stream))

    def handle_NL(self, token: Token) -> Iterator[Token]:
        width = len(token.rsplit("\n", 1)[1].expandtabs(self.tab_len))
        if self.paren_level == 0 and width < self.indent_level[-1] and width not in self.indent_level:
            raise _Misaligned(token)
        yield from super().handle_NL(token)


class _Misaligned(Exception):
    def __init__(self, token: Token):
        self.token = token


def _from_first_line(stream: Iterator[Token]) -> Iterator[Token]:
    """Without line ends (and comments) before the first word."""
    started = False
    for token in stream:
        started = started or token.type != Blocks.NL_type
        if started:
            yield token


@cache
def grammar(package: str, file: str, start: str = "start") -> Lark:
    """The parser for a rule of a grammar file that lies in one of our packages (once per process)."""
    text = (files(package) / file).read_text(encoding="utf-8")
    return Lark(text, parser="lalr", postlex=Blocks(), propagate_positions=True, start=start)


@contextmanager
def without_collection() -> Iterator[None]:
    """Python's collector of circles stands still: it takes half of the time that a large text takes to read, and a tree
    has none."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class Source:
    """A text and where it comes from; makes locations and errors."""

    def __init__(self, text: str, origin: str, first_line: int = 1):
        self.origin, self.first_line = origin, first_line
        self.text = text if text.endswith("\n") else text + "\n"

    def location(self, at: Any) -> Location:
        """The place of a token or tree."""
        m = at.meta if isinstance(at, Tree) else at
        line, column = getattr(m, "line", None) or 1, getattr(m, "column", None) or 1
        return Location(self.origin, line + self.first_line - 1, column)

    def fail(self, message: str, at: Any, hint: str | None = None) -> NoReturn:
        raise ParseError(message, where=self.location(at), hint=hint)

    def excerpt(self, line: int, column: int) -> str | None:
        """The line of the text with a mark below the column."""
        lines = self.text.split("\n")
        if not 1 <= line <= len(lines):
            return None
        found = lines[line - 1].rstrip("\r").replace("\t", " ")
        start = max(0, column - 60)
        return f"{found[start : start + 100]}\n  {' ' * (column - 1 - start)}^"

    def tree(self, parser: Lark, names: Mapping[str, str] | None = None) -> Any:
        """The parse tree, or a ParseError. `names` says what terminals of this grammar are called."""
        try:
            return parser.parse(self.text)
        except _Misaligned as e:
            line, column = e.token.end_line or 1, e.token.end_column or 1
            raise ParseError(
                "the line is less indented than its block, and no outer block is indented like it",
                where=Location(self.origin, line + self.first_line - 1, column), hint=self.excerpt(line, column),
            ) from None  # fmt: skip
        except UnexpectedCharacters as e:
            self._unexpected(repr(e.char), e.allowed or set(), parser, names, e.line, e.column)
        except UnexpectedToken as e:
            ended = e.token.type in ("$END", "_DEDENT") and e.token.end_line == self.text.count("\n") + 1
            token = Token("$END", "") if ended else e.token
            line, column = self._place(token)
            found = FOUND.get(token.type) or repr(self._word(line, column))
            self._unexpected(found, e.accepts or set(e.expected), parser, names, line, column)

    def _word(self, line: int, column: int) -> str:
        """The word or sign that stands at a place."""
        rest = self.text.split("\n")[line - 1][column - 1 :]
        found = re.match(r'"[^"]*"|[\w.]+|\W', rest)
        return found[0] if found else rest

    def _place(self, token: Token) -> tuple[int, int]:
        if token.type == "$END" or token.line is None:
            lines = self.text.rstrip("\n").split("\n")
            return len(lines), len(lines[-1]) + 1
        if token.type in ("_INDENT", "_DEDENT"):  # they borrow the place of the line end before them
            line = token.end_line or token.line
            return line, token.end_column or 1
        return token.line, token.column or 1

    def _unexpected(
        self, found: str, expected: set[str], parser: Lark, names: Mapping[str, str] | None, line: int, column: int
    ) -> NoReturn:
        wanted = human_names(expected, parser, names or {})
        raise ParseError(
            f"found {found}, expected {wanted}",
            where=Location(self.origin, line + self.first_line - 1, column),
            hint=self.excerpt(line, column),
        ) from None


def check_version(tree: Any, source: Source) -> None:
    """Refuse a format that this program does not know."""
    token = tree.children[0]
    if str(token) != str(VERSION):
        source.fail(f"format version {token} is unknown", token, f"this program reads version {VERSION}")


def human_names(expected: set[str], parser: Lark, names: Mapping[str, str]) -> str:
    """Terminals in words: `an expression`, `an operator`, `a name`, `","`."""
    left = set(expected)
    out = []
    if left >= EXPRESSION:
        out.append("an expression")
        left -= EXPRESSION | {"HEX"}
    if len(left & OPERATORS) > 3:
        out.append("an operator")
        left -= OPERATORS | FOLLOWERS
    for t in sorted(left):
        out.append(names.get(t) or NAMES.get(t) or _literal(t, parser))
    out = list(dict.fromkeys(out))
    return out[0] if len(out) == 1 else ", ".join(out[:-1]) + " or " + out[-1]


def _literal(terminal: str, parser: Lark) -> str:
    pattern = parser.get_terminal(terminal).pattern
    return f'"{pattern.value}"' if pattern.type == "str" else terminal.lower()
