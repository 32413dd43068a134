"""Proves to the controllers that this broker knows the cluster's secret, which it reads from a file."""

import os
import time
from pathlib import Path

from tank_protos.call_proof import NO_PROOF, Prover
from tank_protos.cluster_secret import Party, PartyRole, SecretFile


def prover_of(file: Path | None, broker_id: int) -> Prover:
    """Returns a prover with the secret in `file`, or NO_PROOF without a file. `broker_id`: 0 when unknown
    yet. Raises SecretError or OSError when the file can't be used."""
    if file is None:
        return NO_PROOF
    secret = SecretFile(file.read_bytes, str(file), lambda: time.monotonic_ns() // 1_000_000)
    return Prover(secret.current, lambda: Party(PartyRole.BROKER, broker_id), os.urandom)
