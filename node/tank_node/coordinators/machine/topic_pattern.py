"""Patterns of topics' names: regular expressions that match in time linear in the name.

What a client sends is matched on the broker's event loop against every topic of the cluster, so an engine
that goes back and tries again, as Python's, would let one client stop the broker. A pattern becomes a
nondeterministic automaton here, and this, as far as names lead through it, a deterministic one, as in RE2.
Its size and the work for it are bounded. A pattern has to match the whole name.

The syntax is RE2's, without flags, named groups, `\\b`, `\\C`, `\\p` and classes such as `[[:alpha:]]`.
Names of topics have 65 different characters at most, and a set of characters is the set of those.
"""

from typing import Final

from tank_node.coordinators.machine.topics import InvalidPattern

ALPHABET: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_DIGITS: Final = frozenset("0123456789")
_WORD: Final = ALPHABET - frozenset(".-")
_NONE: Final[frozenset[str]] = frozenset()
_SETS: Final = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "w": _WORD,
    "W": ALPHABET - _WORD,
    "s": _NONE,
    "S": ALPHABET,
}
PATTERN_CHARACTERS: Final = 1_000
"""The longest pattern."""
_STATES: Final = 1_000
"""The most states of a pattern's automaton: counted repetitions are written out."""
_REPETITIONS: Final = 1_000
"""The greatest count of a repetition, as RE2 has it."""
_DEPTH: Final = 50
"""How deep groups may be nested."""
_WORK: Final = 200_000
"""How many steps the deterministic automaton may cost in all: some 50 ms."""


class TopicPattern:
    """One pattern. Raises InvalidPattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._automaton = _Automaton()
        first, last = _Parser(text, self._automaton).parse()
        self._accepting = last
        self._left = _WORK
        self._ids: dict[frozenset[int], int] = {}
        self._sets: list[frozenset[int]] = []
        self._next: list[dict[str, int]] = []
        self._accepts: list[bool] = []
        self._first = self._state(self._reach({first}, at_start=True))

    def matches(self, name: str) -> bool:
        """Whether the whole name matches. Raises InvalidPattern for a pattern that costs too much."""
        state = self._first
        for character in name:
            found = self._next[state].get(character)
            if found is None:
                found = self._step(state, character)
            state = found
        return self._accepts[state]

    def _step(self, state: int, character: str) -> int:
        moves = self._automaton.moves
        reached = set()
        for each in self._sets[state]:
            move = moves[each]
            if move is not None and character in move[0]:
                reached.add(move[1])
        self._spend(len(self._sets[state]))
        found = self._state(self._reach(reached, at_start=False))
        self._next[state][character] = found
        return found

    def _state(self, states: frozenset[int]) -> int:
        known = self._ids.get(states)
        if known is None:
            known = self._ids[states] = len(self._sets)
            self._sets.append(states)
            self._next.append({})
            self._accepts.append(self._accepting in self._reach(set(states), at_start=False, at_end=True))
        return known

    def _reach(self, states: set[int], *, at_start: bool, at_end: bool = False) -> frozenset[int]:
        """The states that are reached from these without a character."""
        automaton = self._automaton
        found = set(states)
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            onward = list(automaton.free[state])
            if at_start:
                onward += automaton.at_start[state]
            if at_end:
                onward += automaton.at_end[state]
            for each in onward:
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        self._spend(len(found))
        return frozenset(found)

    def _spend(self, steps: int) -> None:
        self._left -= steps + 1
        if self._left < 0:
            raise InvalidPattern("the regular expression costs too much: write a simpler one")


class _Automaton:
    """States, and the ways between them."""

    def __init__(self) -> None:
        self.moves: list[tuple[frozenset[str], int] | None] = []
        """By state: the characters that lead on, and where to."""
        self.free: list[list[int]] = []
        """By state: where it leads without a character; in the next two only at the name's ends."""
        self.at_start: list[list[int]] = []
        self.at_end: list[list[int]] = []

    def add(self) -> int:
        """A new state."""
        if len(self.moves) >= _STATES:
            raise InvalidPattern("the regular expression is too large: its repetitions are written out")
        self.moves.append(None)
        self.free.append([])
        self.at_start.append([])
        self.at_end.append([])
        return len(self.moves) - 1

    def characters(self, characters: frozenset[str]) -> tuple[int, int]:
        """A part that takes one of these characters; a part is its first and its last state."""
        first, last = self.add(), self.add()
        self.moves[first] = (characters, last)
        return first, last

    def nothing(self) -> tuple[int, int]:
        """A part that takes no character."""
        first, last = self.add(), self.add()
        self.free[first].append(last)
        return first, last


_Node = tuple[str, object]
"""A parsed part: its kind, and what it has."""


class _Parser:
    """Reads a pattern into a tree, and writes this into an automaton."""

    def __init__(self, text: str, automaton: _Automaton) -> None:
        if len(text) > PATTERN_CHARACTERS:
            raise InvalidPattern(f"a regular expression has at most {PATTERN_CHARACTERS} characters")
        self._text = text
        self._at = 0
        self._depth = 0
        self._automaton = automaton

    def parse(self) -> tuple[int, int]:
        """The whole pattern's first and last state."""
        node = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ) too many")
        return self._write(node)

    def _error(self, what: str) -> InvalidPattern:
        return InvalidPattern(f"the regular expression is wrong at character {self._at + 1}: {what}")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        found = self._peek()
        if not found:
            raise self._error("it ends too early")
        self._at += 1
        return found

    # --- reading -----------------------------------------------------------------------------------

    def _alternatives(self) -> _Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return ("any", branches) if len(branches) > 1 else branches[0]

    def _sequence(self) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return ("all", parts)

    def _atom(self) -> _Node:
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return ("set", self._class())
            case ".":
                return ("set", ALPHABET)
            case "^":
                return ("start", None)
            case "$":
                return ("end", None)
            case "\\":
                return self._escaped()
            case "*" | "+" | "?":
                self._at -= 1
                raise self._error(f"{character} has nothing to repeat")
        return ("set", frozenset(character) & ALPHABET)

    def _group(self) -> _Node:
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise self._error("of groups that begin with (? only (?: is known")
            self._at += 2
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._error(f"groups are nested more than {_DEPTH} deep")
        inner = self._alternatives()
        self._depth -= 1
        if self._peek() != ")":
            raise self._error("a ) is missing")
        self._at += 1
        return inner

    def _escaped(self) -> _Node:
        character = self._take()
        if character == "A":
            return ("start", None)
        if character == "z":
            return ("end", None)
        return ("set", self._escaped_set(character))

    def _escaped_set(self, character: str) -> frozenset[str]:
        if character in _SETS:
            return _SETS[character]
        if character.isalnum():
            raise self._error(f"\\{character} is not known")
        return frozenset(character) & ALPHABET

    def _class(self) -> frozenset[str]:
        is_negated = self._peek() == "^"
        self._at += is_negated
        found: set[str] = set()
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            character = self._take()
            if character == "[" and self._peek() == ":":
                raise self._error("classes such as [[:alpha:]] are not known")
            if character == "\\":
                character = self._take()
                if character in _SETS:
                    found |= _SETS[character]
                    continue
                if character.isalnum():
                    raise self._error(f"\\{character} is not known")
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                last = self._take()
                if last == "\\":
                    last = self._take()
                if last < character:
                    raise self._error(f"{character}-{last} is no range")
                found |= {each for each in ALPHABET if character <= each <= last}
            else:
                found.add(character)
        self._at += 1
        return (ALPHABET - found) if is_negated else frozenset(found) & ALPHABET

    def _repeated(self, node: _Node) -> _Node:
        is_repeated = False
        while True:
            bounds = self._bounds()
            if bounds is None:
                return node
            if is_repeated:
                raise self._error("a repetition is repeated: put it into a group")
            is_repeated = True
            if self._peek() == "?":  # as few as possible: the same for a whole name
                self._at += 1
            node = ("repeat", (node, *bounds))

    def _bounds(self) -> tuple[int, int | None] | None:
        match self._peek():
            case "*":
                bounds: tuple[int, int | None] = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                return self._counted()
            case _:
                return None
        self._at += 1
        return bounds

    def _counted(self) -> tuple[int, int | None] | None:
        """The bounds in braces; None for braces that mean themselves."""
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _is_number(least) or not (not most or _is_number(most)):
            raise self._error("braces say how often: {2}, {2,} or {2,5}")
        low = int(least)
        high: int | None = low
        if comma:
            high = int(most) if most else None
        if low > _REPETITIONS or (high is not None and (high > _REPETITIONS or high < low)):
            raise self._error(f"a repetition is between 0 and {_REPETITIONS}, the smaller number first")
        self._at = end + 1
        return low, high

    # --- writing -----------------------------------------------------------------------------------

    def _write(self, node: _Node) -> tuple[int, int]:
        kind, what = node
        automaton = self._automaton
        if kind == "set":
            assert isinstance(what, frozenset)
            return automaton.characters(what)
        if kind in ("start", "end"):
            first, last = automaton.add(), automaton.add()
            (automaton.at_start if kind == "start" else automaton.at_end)[first].append(last)
            return first, last
        if kind == "repeat":
            assert isinstance(what, tuple)
            return self._write_repeated(*what)
        assert isinstance(what, list)
        if kind == "any":
            first, last = automaton.add(), automaton.add()
            for branch in what:
                begin, end = self._write(branch)
                automaton.free[first].append(begin)
                automaton.free[end].append(last)
            return first, last
        first = last = automaton.add()
        for part in what:
            begin, end = self._write(part)
            automaton.free[last].append(begin)
            last = end
        return first, last

    def _write_repeated(self, node: _Node, least: int, most: int | None) -> tuple[int, int]:
        automaton = self._automaton
        first = last = automaton.add()
        for _ in range(least):
            begin, end = self._write(node)
            automaton.free[last].append(begin)
            last = end
        if most is None:
            begin, end = self._write(node)
            over = automaton.add()
            automaton.free[last] += [begin, over]
            automaton.free[end] += [begin, over]
            return first, over
        over = automaton.add()
        for _ in range(most - least):
            automaton.free[last].append(over)
            begin, end = self._write(node)
            automaton.free[last].append(begin)
            last = end
        automaton.free[last].append(over)
        return first, over


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
