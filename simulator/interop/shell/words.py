"""Shell text cut into words and operators, nothing of it run.

Of the grammar of bash: comments, quotes, line continuations, arrays as values, here-documents (skipped),
redirections (skipped) and the places of `$NAME`, `${...}`, `$((...))` and `$(...)`. What stands in them is for
`interop.shell` to decide.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal, NamedTuple

from simulator.errors import InputError, Problem

Kind = Literal["text", "parameter", "arithmetic", "command"]

_OPERATORS = (";;", "&&", "||", "|&", ";", "&", "|", "(", ")", "\n")
_REDIRECTION = re.compile(r"[0-9]*(?:<<<|&>>|&>|>>|>\||<&|>&|<|>)(?:&?[0-9-]+(?=\s|;|$))?")
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"\\]?)(\w+)\1?")
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=\(")
_NAME = re.compile(r"\w+|[@*#?$!-]")
_BREAKS = frozenset(" \t\r\n;&|()<>")


class Piece(NamedTuple):
    """A part of a word."""

    kind: Kind
    """Plain text, or what stands in `${...}`, `$((...))` or `$(...)`."""
    text: str
    quoted: bool
    """Whether it stands in quotes, so that blanks in its value do not cut the word."""


class Word(NamedTuple):
    """A word of a command."""

    pieces: tuple[Piece, ...]
    line: int
    """Where it begins, from 1."""
    items: "tuple[Word, ...] | None" = None
    """Of `NAME=(...)`, whose name and sign are then the only piece: what stands between the brackets."""

    @property
    def literal(self) -> str:
        """The word where it is unquoted text alone, else nothing; for keywords and names."""
        return "".join(piece.text for piece in self.pieces) if all(map(_is_bare, self.pieces)) else ""


class Operator(NamedTuple):
    """What ends a command."""

    text: str
    line: int


def _is_bare(piece: Piece) -> bool:
    return piece.kind == "text" and not piece.quoted


def tokens(text: str, file: str | None = None, line: int = 1) -> Iterator[Word | Operator]:
    """The words and operators of a script that begins on a line of a file.

    Raises InputError where a quote or bracket is never closed.
    """
    return _Scanner(text, file, line).run()


class _Scanner:
    """Walks through the text once."""

    def __init__(self, text: str, file: str | None, first: int) -> None:
        self.text = text
        self.file = file
        self.first = first
        self.at = 0
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.heredocs: list[str] = []

    def run(self) -> Iterator[Word | Operator]:
        """All tokens."""
        while self.at < len(self.text):
            found = self._next()
            if found is not None:
                yield found
        yield Operator("\n", self._line(self.at))

    def _line(self, at: int) -> int:
        return self.first + bisect_right(self.breaks, at - 1)

    def _next(self, nested: bool = False) -> Word | Operator | None:
        """The token that begins here; None where something was skipped. Arrays do not stand in arrays (`nested`)."""
        text, at = self.text, self.at
        if text.startswith("\\\n", at) or text.startswith("\\\r\n", at):
            self.at = text.index("\n", at) + 1
            return None
        if text[at] in " \t\r":
            self.at += 1
            return None
        if text[at] == "#":
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end
            return None
        if self._skip_redirection():
            return None
        for operator in _OPERATORS:
            if text.startswith(operator, at):
                self.at += len(operator)
                if operator == "\n":
                    self._skip_heredocs()
                return Operator(operator, self._line(at))
        return (None if nested else self._array()) or self._word()

    def _skip_redirection(self) -> bool:
        """Skip `> file`, `2>&1`, `<<EOF` with what it names; whether there was one."""
        heredoc = _HEREDOC.match(self.text, self.at)
        if heredoc is not None:
            self.heredocs.append(heredoc[2])
            self.at = heredoc.end()
            return True
        match = _REDIRECTION.match(self.text, self.at)
        if match is None or self.text.startswith(("<(", ">("), match.end() - 1):
            return False
        self.at = match.end()
        if not match[0][-1].isdigit():
            while self.at < len(self.text) and self.text[self.at] in " \t":
                self.at += 1
            if self.at < len(self.text) and self.text[self.at] not in _BREAKS:
                self._word()
        return True

    def _skip_heredocs(self) -> None:
        for name in self.heredocs:
            end = re.compile(rf"^\t*{re.escape(name)}$", re.MULTILINE).search(self.text, self.at)
            self.at = len(self.text) if end is None else end.end()
        self.heredocs = []

    def _array(self) -> Word | None:
        match = _ARRAY.match(self.text, self.at)
        if match is None:
            return None
        begin, self.at = self.at, match.end()
        items: list[Word] = []
        while True:
            if self.at >= len(self.text):
                raise self._open(begin, "a bracket")
            if self.text[self.at] == ")":
                self.at += 1
                name = Piece("text", match[0][:-1], False)
                return Word((name,), self._line(begin), tuple(items))
            found = self._next(nested=True)
            if isinstance(found, Word):
                items.append(found)

    def _word(self) -> Word:
        begin, text = self.at, self.text
        pieces: list[Piece] = []
        while self.at < len(text) and text[self.at] not in _BREAKS:
            letter = text[self.at]
            if letter == "'":
                pieces.append(Piece("text", self._until("'", begin), True))
            elif letter == '"':
                pieces += self._double()
            elif letter == "\\":
                escaped = text[self.at + 1 : self.at + 2]
                pieces += [] if escaped == "\n" else [Piece("text", escaped, True)]
                self.at += 2
            elif letter in "$`":
                pieces.append(self._dollar(False))
            else:
                end = self.at
                while end < len(text) and text[end] not in _BREAKS and text[end] not in "'\"\\$`":
                    end += 1
                pieces.append(Piece("text", text[self.at : end], False))
                self.at = end
        if self.at == begin:  # `<(` and whatever else begins no word
            self.at += 1
        return Word(tuple(pieces), self._line(begin))

    def _until(self, mark: str, begin: int) -> str:
        """What stands up to a closing mark, the opening one being here."""
        end = self.text.find(mark, self.at + 1)
        if end < 0:
            raise self._open(begin, "a quote")
        inner, self.at = self.text[self.at + 1 : end], end + 1
        return inner

    def _double(self) -> list[Piece]:
        begin, text = self.at, self.text
        self.at += 1
        pieces = [Piece("text", "", True)]
        while self.at < len(text) and text[self.at] != '"':
            if text[self.at] == "\\" and text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
                escaped = text[self.at + 1]
                pieces.append(Piece("text", " " if escaped == "\n" else escaped, True))
                self.at += 2
            elif text[self.at] in "$`":
                pieces.append(self._dollar(True))
            else:
                end = self.at + 1
                while end < len(text) and text[end] not in '"\\$`':
                    end += 1
                pieces.append(Piece("text", text[self.at : end], True))
                self.at = end
        if self.at >= len(text):
            raise self._open(begin, "a quote")
        self.at += 1
        return pieces

    def _dollar(self, quoted: bool) -> Piece:
        begin, text = self.at, self.text
        if text[begin] == "`":
            return Piece("command", self._until("`", begin), quoted)
        if text.startswith("$((", begin):
            return Piece("arithmetic", self._bracketed(3, "(", ")")[:-1], quoted)
        if text.startswith("$(", begin):
            return Piece("command", self._bracketed(2, "(", ")"), quoted)
        if text.startswith("${", begin):
            return Piece("parameter", self._bracketed(2, "{", "}"), quoted)
        name = _NAME.match(text, begin + 1)
        if name is None:
            self.at += 1
            return Piece("text", "$", quoted)
        self.at = name.end()
        return Piece("parameter", name[0], quoted)

    def _bracketed(self, opening: int, left: str, right: str) -> str:
        """What stands between brackets of which `opening` letters open; nested ones are counted."""
        begin = self.at
        depth = opening - 1
        at = begin + opening
        while at < len(self.text) and depth:
            depth += (self.text[at] == left) - (self.text[at] == right)
            at += 1
        if depth:
            raise self._open(begin, "a bracket")
        self.at = at
        return self.text[begin + opening : at - 1]

    def _open(self, begin: int, what: str) -> InputError:
        message = f"{what} opens here and is never closed"
        return InputError(Problem(message, self.file, self._line(begin), hint="is the script complete?"))
