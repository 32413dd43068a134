"""With what a broker proves the cluster's secret to the controllers: from its file."""

import os
import time
from pathlib import Path

from tank_protos.call_proof import NO_PROOF, Prover
from tank_protos.cluster_secret import Party, Role, SecretFile


def prover_of(file: Path | None, broker_id: int) -> Prover:
    """broker_id: 0 where it isn't known yet. SecretError, OSError: of the file."""
    if file is None:
        return NO_PROOF
    secret = SecretFile(file.read_bytes, str(file), lambda: time.monotonic_ns() // 1_000_000)
    return Prover(secret.current, lambda: Party(Role.BROKER, broker_id), os.urandom)
