"""Mutants of the names of Iggy's clients."""

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.story import Kind

MUTANTS = (
    Mutant(
        "a purged topic keeps its id, and with it the messages of a broker that was away",
        "tank_controller.commands.iggy.purging.purge_topic",
        "        topic_id=state.index,\n",
        "        topic_id=before.topic_id,\n",
        Kind.CLUSTER,
        told="a_topic_is_purged_under_writers",
    ),
    Mutant(
        "a broker that was away when a topic was purged sets its messages aside for ever",
        "tank_node.broker.removed_partitions.delete_purged",
        "        folder.delete_topic(topic_id)\n",
        "        pass\n",
        Kind.CLUSTER,
        told="a_topic_is_purged_under_writers",
    ),
    Mutant(
        "a renamed stream is found by its old name, too",
        "tank_node.cluster.iggy_view.IggyView._put_stream",
        "        self._remove_stream(stream.number)\n",
        "",
        Kind.CLUSTER,
        told="a_stream_and_its_topic_are_renamed_under_readers",
    ),
)
