"""The nearest of some names to one that was mistyped."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like `name`, whatever the case of its letters; None when none is like it."""
    by_folded = {candidate.casefold(): candidate for candidate in names}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The words " Did you mean 'x'?", with the space before them; empty when nothing is near."""
    guess = nearest(name, names)
    return f" Did you mean {guess!r}?" if guess is not None else ""
