"""The token of an HTTP API, and where it is read from."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOKEN_VARIABLE: Final = "TANK_API_TOKEN"
MIN_TOKEN_CHARS: Final = 16
MAX_TOKEN_BYTES: Final = 4096


class TokenError(OSError):
    """A token that can't be used, or read; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Token:
    """Where the token is: in a file, which is read at each use so that it can be changed, or in a text."""

    file: Path | None = None
    text: str = ""

    @property
    def configured(self) -> bool:
        return self.file is not None or bool(self.text)

    def read(self) -> str:
        """Reads the token, from the file if there is one. Raises TokenError."""
        text, place = self.text, TOKEN_VARIABLE
        if self.file is not None:
            place = str(self.file)
            try:
                with open(self.file, "rb") as file:
                    text = file.read(MAX_TOKEN_BYTES + 1).decode("ascii")
            except (OSError, UnicodeDecodeError) as error:
                raise TokenError(f"the API's token can't be read from {place} ({error})") from None
        text = text.strip()
        if not re.fullmatch(r"[!-~]*", text) or len(text) > MAX_TOKEN_BYTES:
            raise TokenError(f"{place} holds no token: write one line of characters without spaces into it")
        if len(text) < MIN_TOKEN_CHARS:
            least = MIN_TOKEN_CHARS
            raise TokenError(f"the token in {place} has {len(text)} characters: use one of at least {least}")
        return text


NO_TOKEN = Token()
