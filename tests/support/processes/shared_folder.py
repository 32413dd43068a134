"""The folder beside the repository with files of other implementations, which are not part of the
repository."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared"
DEFINITIONS = SHARED / "reference/kafka-messages"
VECTORS = SHARED / "golden/kafka/messages.jsonl"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips where the folder is absent, and says in the summary of the run what was not tried."""
    reason = f"../shared/{path.relative_to(SHARED)} is absent: the Kafka project's definitions were NOT tried"
    return pytest.mark.skipif(not path.exists(), reason=reason)
