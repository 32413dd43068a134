"""Mutants of stored batches that sessions append at other brokers."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "an append that was sent is sent again",
        "tank_node.stored.append_call.AppendCall._not_answered",
        "        if sent:\n",
        "        if False:\n",
        Kind.CLUSTER,
        told="the_connection_breaks_behind_a_sessions_append",
    ),
    Mutant(
        "an append that may be stored is told not to be",
        "tank_node.stored.append_call.AppendCall._not_answered",
        "Appended(StoredOutcome.MAYBE_STORED)",
        "Appended(StoredOutcome.NO_LEADER)",
        Kind.CLUSTER,
        told="a_leader_dies_with_a_sessions_append",
    ),
)
