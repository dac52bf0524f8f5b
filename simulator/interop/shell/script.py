"""What a shell script would run, read without running any of it.

Assignments, arrays, `${NAME:-default}`, arithmetic on whole numbers and plain tests (`[ a = b ]`, `case`) are followed.
What only a shell could know (a command's output, variables of the environment, branches on either) becomes text with a
*mark* in it: a reader that needs that text learns why it is unknown; all else goes on.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from simulator.errors import InputError, Problem
from simulator.interop.shell.conditions import arithmetic, outcome
from simulator.interop.shell.words import Operator, Piece, Word, tokens

MOST_LETTERS = 2_000_000
"""Letters that all expansions of a script may make."""
_MARK = re.compile("\0(\\d+)\0")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_PARAMETER = re.compile(r"(\w+|[@*#?$!-])(\[(?:[@*]|[0-9]+)\])?(?:(:?[-=])(.*))?", re.DOTALL)
_DECLARING = ("export", "local", "declare", "typeset", "readonly")
_TESTS = ("[", "[[", "test")
Truth = bool | None


class Field(NamedTuple):
    """A word as a program would get it."""

    text: str
    """The text; marks stand where it is not known."""
    line: int
    """Where it was written, from 1."""


class Call(NamedTuple):
    """A command that the script runs, or may run."""

    fields: tuple[Field, ...]
    """The program's name and its arguments."""
    line: int
    """Where it begins."""


@dataclass(slots=True)
class _Frame:
    """An `if`, a `case` or a loop that is open."""

    kind: str
    active: Truth = True
    taken: Truth = False
    """Whether an earlier branch ran."""
    asking: bool = False
    """Whether the condition of an `if`, or the pattern of a `case`, is being read."""
    answer: Truth = None
    joiner: str = ""
    """What joins the next part of a condition to those before it: `&&` or `||`."""
    cause: str = ""
    """Why a condition is not known."""
    subject: str = ""
    """What a `case` looks at."""
    patterns: list[str] = field(default_factory=list)


class Script:
    """A script that was read: its commands and its variables.

    `given` sets variables that the script does not know, or overrules those that it sets. Raises InputError where the
    text ends inside a quote or its variables grow without bounds.
    """

    def __init__(self, text: str, file: str | None = None, given: Mapping[str, str] | None = None) -> None:
        """Read all of it."""
        self.file = file
        self.variables: dict[str, Field | list[Field]] = {}
        self.calls: list[Call] = []
        self.reasons: list[str] = []
        self.made = 0
        self.given = given or {}
        self.frames: list[_Frame] = []
        self.chain: Truth = True
        self._run(text)

    def why(self, text: str) -> str:
        """Why a text is not known; nothing where it is."""
        match = _MARK.search(text)
        return self.reasons[int(match[1])] if match else ""

    def _run(self, text: str) -> None:
        words: list[Word] = []
        for token in tokens(text, self.file):
            if isinstance(token, Word):
                words.append(token)
            else:
                self._statement(words, token)
                words = []

    # Statements

    def _statement(self, words: list[Word], operator: Operator) -> None:
        """One command with what ended it."""
        top = self.frames[-1] if self.frames else None
        if top is not None and top.kind == "case" and top.asking:
            words = [word for word in words if word.literal != "esac"] if not self._ends_case(words) else []
            top.patterns += [self._joined(word) for word in words]
            if operator.text == ")":
                self._choose(top)
            return
        while words and self._keyword(words):
            words = words[1:]
        answer = self._condition(words, operator) if words else None
        if words and answer is None:
            self._plain(words)
        top = self.frames[-1] if self.frames else None
        if operator.text == ";;" and top is not None and top.kind == "case":
            top.asking, top.patterns = True, []
        self._link(operator, answer, bool(words))

    def _ends_case(self, words: list[Word]) -> bool:
        if words and words[0].literal == "esac":
            self.frames.pop()
            return True
        return False

    def _link(self, operator: Operator, answer: "_Answer | None", any_words: bool) -> None:
        """Whether the next command runs, after `&&` and `||`; commands are taken to succeed."""
        if operator.text in ("&&", "||") and any_words:
            truth = True if answer is None else answer.truth
            wanted = truth if operator.text == "&&" else _not(truth)
            self.chain = _both(self.chain, wanted)
        elif any_words or operator.text not in ("\n",):
            self.chain = True

    def _keyword(self, words: list[Word]) -> bool:
        """Follow the keyword that a command begins with; whether there was one."""
        word = words[0].literal
        top = self.frames[-1] if self.frames else None
        if word in ("if", "elif") and (word == "if" or top is not None):
            if word == "if":
                self.frames.append(_Frame("if"))
            frame = self.frames[-1]
            frame.asking, frame.answer, frame.active, frame.joiner = True, True, True, "&&"
        elif word in ("then", "else") and top is not None:
            truth = top.answer if word == "then" else True
            top.asking, top.active = False, _both(_not(top.taken), truth)
            top.taken = _either(top.taken, top.active)
        elif word in ("fi", "done", "esac") and top is not None:
            self.frames.pop()
        elif word in ("while", "until", "select"):
            self.frames.append(_Frame("loop", active=None))
        elif word == "for":
            self._loop(words)
            words[1:] = []
        elif word == "case" and len(words) > 1:
            self._case(words)
            words[1:] = []
        else:
            return word in ("do", "{", "}", "!", "time", "exec", "function")
        return True

    def _loop(self, words: list[Word]) -> None:
        """`for NAME in ...`: with one value it has that one; with several its value is unknown."""
        values = [text for word in words[3:] for text in self._expand(word)]
        name = words[1].literal if len(words) > 1 else ""
        known = len(values) == 1
        if name:
            reason = f"`${name}` takes several values in the loop on line {words[0].line}"
            text = values[0].text if known else self._mark(reason)
            self.variables[name] = Field(text, words[0].line)
        self.frames.append(_Frame("loop", active=True if known else None))

    def _case(self, words: list[Word]) -> None:
        frame = _Frame("case", active=False, asking=True, subject=self._joined(words[1]))
        frame.patterns = [self._joined(word) for word in words[3:]]
        self.frames.append(frame)

    def _choose(self, frame: _Frame) -> None:
        """Whether the branch whose patterns were read runs."""
        frame.cause = next(filter(None, map(self.why, (frame.subject, *frame.patterns))), "")
        unknown = bool(frame.cause)
        matches = any(fnmatchcase(frame.subject, pattern[:200]) for pattern in frame.patterns)
        truth: Truth = None if unknown and "*" not in frame.patterns else matches or unknown
        frame.active = _both(_not(frame.taken), truth)
        frame.taken = _either(frame.taken, frame.active)
        frame.asking, frame.patterns = False, []

    def _condition(self, words: list[Word], operator: Operator) -> "_Answer | None":
        """The outcome of a test; of any other command where a condition is asked for; else None."""
        top = self.frames[-1] if self.frames else None
        asking = top is not None and top.kind == "if" and top.asking
        is_test = words[0].literal in _TESTS
        if not (asking or is_test):
            return None
        joined = [self._joined(word) for word in words]
        truth = None if not (is_test or asking) or any(map(self.why, joined)) else outcome(joined)
        if asking and top is not None:
            top.answer = (_either if top.joiner == "||" else _both)(top.answer, truth)
            top.joiner = operator.text
            top.cause = next(filter(None, map(self.why, joined)), top.cause)
        return _Answer(truth)

    def _active(self) -> Truth:
        """Whether what stands here runs."""
        active = self.chain
        for frame in self.frames:
            active = _both(active, frame.active)
        return active

    def _plain(self, words: list[Word]) -> None:
        """Assignments, or a command."""
        active = self._active()
        if active is False:
            return
        if words[0].literal in _DECLARING:
            words = [word for word in words[1:] if not word.literal.startswith("-")]
        count = next((i for i, word in enumerate(words) if not _assigns(word)), len(words))
        if count == len(words):
            for word in words:
                self._assign(word, active is None)
            return
        fields = [found for word in words[count:] for found in self._expand(word)]
        if active is None:
            fields = self._doubtful(fields, words[0].line)
        self.calls.append(Call(tuple(fields), words[0].line))

    # Variables

    def _assign(self, word: Word, doubtful: bool) -> None:
        """`NAME=value`, `NAME+=value`, `NAME=(...)`; what may not run leaves marks."""
        match = _ASSIGNMENT.match(word.pieces[0].text)
        if match is None or match[1] in self.given:
            return
        name, adds = match[1], bool(match[2])
        old = self.variables.get(name)
        if word.items is not None:
            items = [found for item in word.items for found in self._expand(item)]
            before = (old if isinstance(old, list) else [old] if old else []) if adds else []
            self.variables[name] = [*before, *(self._doubtful(items, word.line) if doubtful else items)]
            return
        rest = (Piece("text", word.pieces[0].text[match.end() :], word.pieces[0].quoted), *word.pieces[1:])
        text = self._joined(word._replace(pieces=rest))
        before_text = _text_of(old)
        if adds:
            text = before_text + text
        if doubtful and text != before_text:
            text = self._maybe(before_text, text, name, word.line)
        self._count(text)
        self.variables[name] = Field(text, word.line)

    def _maybe(self, old: str, new: str, name: str, line: int) -> str:
        """A text that a branch may have changed: what it adds is doubtful, or else all of it."""
        mark = self._mark(f"line {line} sets `{name}` in a branch that may run or not{self._cause()}")
        if old and new.startswith(old):
            return old + "".join(" " + mark + part for part in new[len(old) :].split())
        return mark

    def _doubtful(self, fields: Sequence[Field], line: int) -> list[Field]:
        mark = self._mark(f"line {line} stands in a branch that may run or not{self._cause()}")
        return [found._replace(text=mark + found.text) for found in fields]

    def _cause(self) -> str:
        causes = [frame.cause for frame in self.frames if frame.active is None and frame.cause]
        return f" ({causes[0][:200]})" if causes else ""

    def _mark(self, reason: str) -> str:
        if reason not in self.reasons[-8:]:
            self.reasons.append(reason)
        return f"\0{len(self.reasons) - 1 - self.reasons[::-1].index(reason)}\0"

    def _count(self, text: str) -> None:
        self.made += len(text)
        if self.made > MOST_LETTERS:
            message = f"its variables expand to more than {MOST_LETTERS:,} letters"
            raise InputError(Problem(message, self.file, hint="give the argument list alone"))

    # Expansion

    def _expand(self, word: Word) -> list[Field]:
        """The words that a word becomes."""
        parts: list[str] = []
        found: list[Field] = []
        started = False
        for piece in word.pieces:
            values = self._values(piece, word.line)
            whole = len(word.pieces) == 1 or (len(word.pieces) == 2 and word.pieces[0] == Piece("text", "", True))
            if isinstance(values, list) and whole:
                return [part for value in values for part in self._split(value, piece.quoted)]
            text = " ".join(value.text for value in values) if isinstance(values, list) else values
            self._count(text)
            if piece.kind == "text" or piece.quoted:
                parts.append(text)
                started = started or bool(text) or piece.quoted
                continue
            cut_text = re.split(r"[ \t\n]+", text)
            for i, part in enumerate(cut_text):
                if i:
                    found += [Field("".join(parts), word.line)] if started else []
                    parts, started = [], False
                parts.append(part)
                started = started or bool(part)
        return [*found, Field("".join(parts), word.line)] if started else found

    def _split(self, value: Field, quoted: bool) -> list[Field]:
        self._count(value.text)
        return [value] if quoted else [Field(text, value.line) for text in value.text.split()]

    def _joined(self, word: Word) -> str:
        """The word as one text."""
        texts = [self._values(piece, word.line) for piece in word.pieces]
        joined = "".join(text if isinstance(text, str) else " ".join(part.text for part in text) for text in texts)
        self._count(joined)
        return joined

    def _values(self, piece: Piece, line: int) -> str | list[Field]:
        """What a piece stands for: a text, or the elements of a variable."""
        if piece.kind == "text":
            return piece.text
        if piece.kind == "command":
            shown = " ".join(piece.text.split())[:60]
            return self._mark(f"line {line} runs a command for it, `$({shown})`, and nothing is run here")
        if piece.kind == "arithmetic":
            return self._arithmetic(piece.text, line)
        return self._parameter(piece.text, line)

    def _arithmetic(self, text: str, line: int) -> str:
        for _ in range(8):  # names may stand for names
            text = re.sub(r"\$\{(\w+)\}|\$(\w+)|\b([A-Za-z_]\w*)\b", lambda match: self._number(match), text[:2000])
        if self.why(text):
            return self._mark(self.why(text))
        value = arithmetic(text)
        return str(value) if value is not None else self._mark(f"line {line} computes what is not understood")

    def _number(self, match: "re.Match[str]") -> str:
        name = match[1] or match[2] or match[3]
        text = _text_of(self._lookup(name))
        return text or self._unset(name)

    def _lookup(self, name: str) -> Field | list[Field] | None:
        return Field(self.given[name], 0) if name in self.given else self.variables.get(name)

    def _unset(self, name: str) -> str:
        named = f"argument {name} of the script" if name.isdigit() else f"`${name}`"
        return self._mark(f"{named} is not set in the script: give it with `--set {name}=VALUE`")

    def _parameter(self, text: str, line: int, depth: int = 0) -> str | list[Field]:
        match = _PARAMETER.fullmatch(text)
        if match is None or depth > 8:
            return self._mark(f"line {line} uses `${{{text[:60]}}}`, which is not understood")
        value = self._lookup(match[1])
        if not _text_of(value) and match[3]:
            word = Word(tuple(piece for part in tokens(match[4], self.file, line) for piece in _pieces(part)), line)
            default = "".join(
                found if isinstance(found := self._default(piece, line, depth), str) else _text_of(found)
                for piece in word.pieces
            )
            if "=" in match[3] and match[1] not in self.given:
                self.variables[match[1]] = Field(default, line)
            return default
        if value is None:
            return [] if match[2] else self._unset(match[1])
        if isinstance(value, list):
            if match[2] in ("[@]", "[*]"):
                return value
            index = int(match[2][1:-1][:6]) if match[2] else 0
            return value[index].text if index < len(value) else ""
        return [value]

    def _default(self, piece: Piece, line: int, depth: int) -> str | list[Field]:
        if piece.kind == "parameter":
            return self._parameter(piece.text, line, depth + 1)
        return self._values(piece, line)


class _Answer(NamedTuple):
    truth: Truth


def _pieces(token: Word | Operator) -> tuple[Piece, ...]:
    if isinstance(token, Operator):
        return ()
    return token.pieces


def _assigns(word: Word) -> bool:
    first = word.pieces[0] if word.pieces else None
    return first is not None and not first.quoted and first.kind == "text" and bool(_ASSIGNMENT.match(first.text))


def _text_of(value: Field | list[Field] | None) -> str:
    if value is None:
        return ""
    return value.text if isinstance(value, Field) else " ".join(part.text for part in value)


def _not(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _both(a: Truth, b: Truth) -> Truth:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _either(a: Truth, b: Truth) -> Truth:
    return _not(_both(_not(a), _not(b)))


def words_of(fields: Sequence[Field]) -> list[Field]:
    """Fields with those cut again that hold a whole command line (`bash -c "python ..."`, `"--name value"`)."""
    found: list[Field] = []
    for one in fields:
        if " --" not in f" {one.text}" or not re.search(r"\s", one.text.strip()):
            found.append(one)
            continue
        try:
            parts = shlex.split(one.text.replace("\n", " "))
        except ValueError:  # an apostrophe that is none
            parts = one.text.split()
        found += [Field(part, one.line) for part in parts]
    return found
