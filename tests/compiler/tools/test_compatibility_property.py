"""The check says what happens: bytes of either definition are read with the old and with the new one."""

from random import Random
from typing import TypeAlias
from uuid import UUID as UniqueId

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tank_compiler.schema import layouts
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.schema import (
    UUID,
    Array,
    Field,
    Message,
    Protocol,
    Struct,
)
from tank_compiler.tools import compatibility
from tank_compiler.tools.dissect import DissectedValue, dissect
from tank_compiler.tools.interpreter import default_of, lay_out
from tests.support.examples import examples
from tests.support.values.random_evolution import RENAMED, Evolution, text_of
from tests.support.values.random_values import random_struct

SAMPLES, MANY_SAMPLES = 12, 300
Read: TypeAlias = "dict[str, tuple[bool | None, object]]"
"""All of a struct's fields: whether it was on the wire (None: in this version it never is), and the value."""


def protocol(text: str, name: str) -> Protocol:
    return load_protocol(name, [(f"{name}.json", text)])


def written(random: Random, message: Message, version: int, count: int) -> list[bytes]:
    root = layouts.of_version(message, version).root
    samples = [random_struct(random, root, is_default=at == 0) for at in range(count)]
    return [lay_out(message, sample, version) for sample in samples]


# What readers make of it


def whole(kind: Struct, read: dict[str, DissectedValue]) -> Read:
    """What a program sees: the fields that were read, and the defaults of the others."""
    return {field.name.split(RENAMED)[0]: _seen(field, read) for field in kind.fields}


def _seen(field: Field, read: dict[str, DissectedValue]) -> tuple[bool | None, object]:
    kind = field.type
    if field.name not in read:
        is_there = None if field.is_absent else False
        default = default_of(field)
        if isinstance(kind, Struct) and default is not None:
            return is_there, whole(kind, {})
        if kind is UUID and isinstance(default, bytes):
            return is_there, str(UniqueId(bytes=default))
        return is_there, default
    found = read[field.name]
    if isinstance(kind, Struct) and isinstance(found, dict):
        return True, whole(kind, found)
    if isinstance(kind, Array) and isinstance(kind.element, Struct) and isinstance(found, list):
        return True, [whole(kind.element, one) for one in found if isinstance(one, dict)]
    return True, found


def agree(old: object, new: object) -> bool:
    """Whether old code and new code see the same, as far as old code can see."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, (is_there, seen) in old.items():
            if name not in new:
                if is_there:
                    return False
            elif is_there is None and new[name][0]:
                continue  # a version that had no such field has a tag for it now: old code passes over it
            elif not agree(seen, new[name][1]):
                return False
        return True
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(agree(*pair) for pair in zip(old, new, strict=True))
    return type(old) is type(new) and old == new


def reads_alike(old: Message, new: Message, payload: bytes, version: int) -> bool:
    before, after = (dissect(message, memoryview(payload), version) for message in (old, new))
    if before.error or after.error:
        return False
    roots = [layouts.of_version(message, version).root for message in (old, new)]
    return agree(whole(roots[0], before.fields), whole(roots[1], after.fields))


def really_breaks(random: Random, old: Message, new: Message, count: int = SAMPLES) -> bool:
    """Whether some reader of some version that exists can't read what it is sent, or reads something else."""
    for version in range(old.versions.low, old.versions.high_end + 1):
        if version not in new.versions:
            return True
        payloads = written(random, old, version, count) + written(random, new, version, count)
        if not all(reads_alike(old, new, payload, version) for payload in payloads):
            return True
    return False


def evolved(random: Random) -> tuple[Protocol, Protocol]:
    """A definition that can be compiled, and what became of it."""
    while True:
        evolution = Evolution(random)
        first = evolution.definition()
        try:
            old = protocol(text_of(first), "old")
            return old, protocol(text_of(evolution.evolved(first)), "new")
        except DefinitionError:
            continue


def judge(seed: int) -> None:
    random = Random(seed)
    old, new = evolved(random)
    verdict = compatibility.compare(old, new)
    reality = really_breaks(random, old.messages[0], new.messages[0])
    if verdict.breaks and not reality:  # a rare value may be needed to see it
        reality = really_breaks(random, old.messages[0], new.messages[0], MANY_SAMPLES)
    said = "\n".join(map(str, verdict.findings))
    assert bool(verdict.breaks) == reality, f"{old.messages[0]}\n{new.messages[0]}\n{said}"


@settings(examples(300), derandomize=True)
@given(st.integers(0, 1 << 60))
@example(2638567842)  # a field of versions 0 to 2 gets a tag in version 3
@example(182986771)  # a default changes in a struct of a list, under a tag
def test_the_verdict_is_what_happens(seed: int) -> None:
    judge(seed)


@pytest.mark.long
@settings(examples(20_000), deadline=None)
@given(st.integers(0, 1 << 60))
def test_the_verdict_is_what_happens_through_the_night(seed: int) -> None:
    judge(seed)
