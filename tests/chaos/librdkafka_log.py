"""What librdkafka says of its own work, in a file beside the records of its client: for a client that stands
still though its partition goes on."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

SETTINGS: Final[dict[str, str | int]] = {"debug": "broker,topic,metadata,fetch,consumer,cgrp", "log_level": 7}
"""Without its messages and requests, which would be many thousand lines a minute."""
_MOST_BYTES: Final = 1024 * 1024
_FILES: Final = 3
"""The newest lines of a client stay: some minutes."""


def log_beside(records: Path) -> logging.Logger:
    """The logger to give to a client whose records are in this file."""
    logger = logging.getLogger(f"tests.chaos.librdkafka.{records.stem}")
    if not logger.handlers:
        handler = RotatingFileHandler(records.with_suffix(".log"), maxBytes=_MOST_BYTES, backupCount=_FILES)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    return logger
