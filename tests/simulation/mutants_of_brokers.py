"""What is broken on purpose in the state machine, in replication and in the log."""

from tests.simulation.mutant import Mutant as _Mutant
from tests.simulation.story import Kind

COMMANDS = "controller/tank_controller/"
NODE = "node/tank_node/"


def Mutant(
    name: str,
    file: str,
    old: str,
    new: str,
    also: tuple[tuple[str, str, str], ...] = (),
    told: str = "",
    seeds: int = 200,
) -> _Mutant:
    """One that shows in stories of whole clusters."""
    return _Mutant(name, file, old, new, Kind.CLUSTER, seeds, told, also)


LATE = "            if seen_index < index and setter is not stream.mark:\n"
LATE_POSITIONS_PASS = COMMANDS + "position_order.py", LATE, "            if False:\n"

MUTANTS = (
    Mutant(
        "acknowledges before fsync: a broker that leads",
        NODE + "replication/in_sync.py",
        "        self.written = end\n",
        "        self.written = self.synced = end\n",
        told="every_disk_is_slow_once",
    ),
    Mutant(
        "acknowledges before fsync: a broker that follows",
        NODE + "replication/in_sync.py",
        "return replica.synced if self.flush_disk else replica.matched",
        "return replica.matched",
        told="every_disk_is_slow_once",
    ),
    Mutant(
        "the high-water mark ignores one in-sync replica",
        NODE + "replication/in_sync.py",
        "for broker_id in self.members:",
        "for broker_id in self.members[:-1]:",
        told="a_member_is_not_heard",
    ),
    Mutant(
        "the high-water mark goes back",
        NODE + "partition.py",
        "        if mark <= self.high_water_mark:\n            return\n        assert",
        "        if mark == self.high_water_mark:\n            return\n        assert",
        also=(
            (
                NODE + "replication/follow.py",
                "    return max(own, min(pushed, matched))",
                "    return min(pushed, matched)",
            ),
        ),
        told="a_leader_dies_that_only_one_has_heard",
    ),
    Mutant(
        "truncates by high-water mark",
        NODE + "partition.py",
        "        self.role = role\n        self.note_state()\n",
        "        self.role = role\n"
        "        self.log.truncate_to(self.high_water_mark)\n        self.note_state()\n",
        told="two_leaders_die_that_knew_what_was_committed",
    ),
    Mutant(
        "accepts an old leader epoch",
        NODE + "replication/follow.py",
        "    if order.leader_epoch < standing.leader_epoch:",
        "    if False:",
        told="an_old_leader_goes_on_pushing",
    ),
    Mutant(
        "a leader adds a replica before it has caught up",
        NODE + "replication/in_sync.py",
        "return replica.answered and self._counted(replica) >= max(self.mark, self.start_end)",
        "return replica.answered",
        told="a_new_leader_knows_an_old_mark",
    ),
    Mutant(
        "rejoins by high-water mark alone",
        NODE + "replication/in_sync.py",
        "self._counted(replica) >= max(self.mark, self.start_end)",
        "self._counted(replica) >= self.mark",
        told="a_new_leader_knows_an_old_mark",
    ),
    Mutant(
        "an in-sync change without compare-and-set",
        COMMANDS + "partition_commands.py",
        "    if (partition.leader_epoch, partition.partition_epoch) != (",
        "    if False and (partition.leader_epoch, partition.partition_epoch) != (",
        told="a_proposal_is_overtaken",
    ),
    Mutant(
        "an in-sync proposal without broker epochs",
        COMMANDS + "partition_commands.py",
        "if broker.fenced or broker.epoch != member.broker_epoch or (joins and broker.leaves):",
        "if broker.fenced or (joins and broker.leaves):",
        told="a_member_restarts_as_it_is_proposed",
    ),
    Mutant(
        "acknowledges before the high-water mark",
        NODE + "replicas/acks.py",
        "            if mark < last:",
        "            if False:",
        told="a_member_is_not_heard",
    ),
    Mutant(
        "reads past the high-water mark",
        NODE + "replicas/readable.py",
        "stretch = self.log.read(number, max_bytes, mark)",
        "stretch = self.log.read(number, max_bytes, self.log.written)",
        told="a_reader_asks_for_all_that_there_is",
    ),
    Mutant(
        "a fenced broker stays leader",
        COMMANDS + "broker_commands.py",
        "    _leave_all(state, broker.broker_id, lambda key, topic: False, outcome)",
        "    pass",
        told="an_old_leader_goes_on_pushing",
    ),
    Mutant(
        "producer state lost on failover: a follower forgets what producers wrote",
        NODE + "log/pushed.py",
        "            producers.replay(_each(records))",
        "            pass",
        told="a_leader_dies_under_load",
    ),
    Mutant(
        "an emptied disk rejoins as in sync",
        COMMANDS + "broker_commands.py",
        "    lost = before.disk_uuid != register.disk_uuid or",
        "    lost = False or",
        also=(
            (
                COMMANDS + "broker_commands.py",
                "return known != before.epoch and (before.has_served or known != before.served_epoch)",
                "return bool(known) and known != before.epoch",
            ),
        ),
        told="a_brokers_disk_is_emptied",
    ),
    Mutant(
        "a folder that was put back in time counts as sound",
        COMMANDS + "broker_commands.py",
        "or is_put_back(state, before, register)",
        "or False",
        told="a_brokers_folder_is_put_back_in_time",
    ),
    Mutant(
        "the checkpoint of an earlier orderly stop counts as the last one's",
        "node/tank_node/log/data_folder.py",
        "clean = self._checkpoint.clean and newest and not held",
        "clean = self._checkpoint.clean and not held",
        told="the_logs_of_a_folder_are_put_back_and_its_checkpoint_is_unreadable",
    ),
    Mutant(
        "a registration that was not written down makes a folder an unsound one",
        COMMANDS + "broker_commands.py",
        " and (before.has_served or known != before.served_epoch)",
        "",
        told="a_process_ends_before_its_registration_is_written_down",
    ),
    Mutant(
        "a later registration heals an impaired replica",
        COMMANDS + "elections.py",
        "        if impaired and broker_id in partition.eligible and broker_id not in partition.impaired:",
        "        if not impaired and broker_id in partition.impaired:\n"
        "            partition.impaired = tuple(each for each in partition.impaired if each != broker_id)\n"
        "        if impaired and broker_id in partition.eligible and broker_id not in partition.impaired:",
        told="a_brokers_folder_is_put_back_in_time",
    ),
    Mutant(
        "an unsure tail stays in sync",
        COMMANDS + "broker_commands.py",
        "        unsure = not register.tail_sure and topic.may_be_unsynced(replicated_default)",
        "        unsure = False",
        told="a_lost_tail_stays_unsure_over_one_start",
    ),
    Mutant(
        "counts a follower's log end instead of what it matched",
        NODE + "replication/push.py",
        "        source.matched(self.follower, last, told.synced)",
        "        source.matched(self.follower, max(last, told.log_end), told.synced)",
        told="a_follower_has_more_than_its_leader",
    ),
    Mutant(
        "a leader keeps its epoch over a restart",
        COMMANDS + "elections.py",
        "            partition.leader = leader\n            partition.leader_epoch += 1\n",
        "            came_back = partition.leader == NOBODY and not partition.eligible\n"
        "            partition.leader = leader\n"
        "            partition.leader_epoch += not (leader == NOBODY or came_back)\n",
        also=(
            (
                NODE + "replicas/roles.py",
                "elif not (goes_on or makes_do) and log.epochs and log.epochs[-1][0] >= placed.leader_epoch:",
                "elif False:",
            ),
        ),
        told="the_last_one_restarts",
    ),
    Mutant(
        "a new in-sync member counted only once the answer is there",
        NODE + "replication/in_sync.py",
        "for broker_id, _ in self.proposed or ():",
        "for broker_id, _ in ():",
        told="an_answer_to_a_proposal_is_late",
    ),
    Mutant(
        "a repeat acknowledged at once",
        NODE + "partition.py",
        "            if through <= self.high_water_mark:",
        "            if True:",
        told="a_repeat_comes_before_the_first_is_committed",
    ),
    Mutant(
        "a short index rebuilt by parsing at rf 3",
        NODE + "log/recovery.py",
        "        if log.settings.replication_factor == 1:  # nobody can refill it",
        "        if True:",
        told="an_index_ends_too_early",
    ),
    Mutant(
        "a topic made again appends to the old folder",
        NODE + "log/data_folder.py",
        'return os.path.join(self.path, "topics", str(topic_id), str(partition))',
        'return os.path.join(self.path, "topics", "1", str(partition))',
        told="a_topic_is_made_again",
    ),
    Mutant(
        "a boundary error above a new leader's mark",
        NODE + "replicas/readable.py",
        "return Reach.WAIT if number <= self.end() + 1 or not self.settled else Reach.OUT_OF_BOUNDS",
        "return Reach.WAIT if number <= mark + 1 else Reach.OUT_OF_BOUNDS",
        told="a_new_leader_knows_an_old_mark",
    ),
    Mutant(
        "one host answers for two replicas",
        NODE + "sessions/peer_identity.py",
        "        if told != (self.cluster_id",
        "        if False and told != (self.cluster_id",
        also=(
            (
                NODE + "sessions/peer.py",
                "    if opening.meant_broker != view.broker_id:",
                "    if False:",
            ),
            (
                COMMANDS + "broker_commands.py",
                "        if not other.fenced:\n            message = (",
                "        if False:\n            message = (",
            ),
        ),
        told="two_brokers_at_one_address",
    ),
    Mutant(
        "a second start calls a lost tail whole",
        NODE + "log/data_folder.py",
        "boot_id=self._boot_id if self.recovered.tail_sure else _UNKNOWN_BOOT",
        "boot_id=self._boot_id",
        told="a_lost_tail_stays_unsure_over_two_starts",
    ),
    Mutant(
        "what was acknowledged from memory is forgotten when flush becomes disk",
        COMMANDS + "state_parts.py",
        "return self.was_replicated or self.acknowledges_unsynced(",
        "return self.acknowledges_unsynced(",
        told="flush_becomes_disk_after_messages_were_acknowledged_from_memory",
    ),
    Mutant(
        "committed positions are sent again on another stream",
        NODE + "controllers/pending.py",
        'NOT_REPEATED = frozenset({"commit_positions"})',
        "NOT_REPEATED = frozenset[str]()",
        also=(LATE_POSITIONS_PASS,),
        told="a_position_is_overtaken",
    ),
    Mutant(
        "a position is kept though another broker has kept a later one since it was sent",
        *LATE_POSITIONS_PASS,
        told="a_position_in_flight_comes_after_its_group_went_on",
    ),
    Mutant(
        "a batch whose last messages are compacted away is given again and again",
        NODE + "log/log.py",
        "                if behind:",
        "                if False:",
        told="a_log_is_compacted",
    ),
    Mutant(
        "a damaged replica is not reported",
        NODE + "replicas/replicator.py",
        "        self._failed.note(partition)\n",
        "        pass\n",
        told="a_chosen_replica_is_damaged_again",
    ),
    Mutant(
        "a compacted batch loses a message that nothing superseded",
        NODE + "log/compaction.py",
        "if (newest.get(message.key, 0) <= message.sequence_number if message.key else message.value)",
        "if (newest.get(message.key, 0) < message.sequence_number if message.key else message.value)",
        told="a_log_is_compacted",
    ),
    Mutant(
        "a push of a leader that has been replaced takes the place of its successor's",
        NODE + "replicas/following.py",
        "        if verdict.error is PushError.STALE_LEADER:\n",
        "        self._line = None\n        if verdict.error is PushError.STALE_LEADER:\n",
        told="an_old_leader_goes_on_pushing",
    ),
    Mutant(
        "a leader that stood still judges its followers before it has heard them",
        NODE + "replicas/replicator.py",
        "        self._was_frozen = not self._was_frozen and now_ms",
        "        self._was_frozen = False and now_ms",
        told="a_leader_stands_still",
    ),
    Mutant(
        "a replica joins that lags too far to stay",
        NODE + "replication/in_sync.py",
        "stays = stays and self.has_caught_up(replica)",
        "stays = self.has_caught_up(replica)",
        told="a_member_joins_that_would_not_stay",
    ),
    Mutant(
        "too few are in sync when the answer is due",
        NODE + "replicas/acks.py",
        "if not error and not self._partition.has_in_sync(self._required_acks):",
        "if False:",
        told="too_few_are_left_when_the_answer_is_due",
    ),
    Mutant(
        "what a lossy election chose makes do a second time in its epoch",
        NODE + "replicas/roles.py",
        "            and partition.led_epoch < placed.leader_epoch\n",
        "",
        told="a_chosen_replica_is_damaged_again",
    ),
    Mutant(
        "a connection that its leader has replaced is listened to",
        NODE + "replicas/following.py",
        "                old.is_open = False\n                old.hang_up()\n",
        "                pass\n",
        told="a_leader_connects_again",
    ),
    Mutant(
        "a replica that lost its log is filled anew while it may become a member",
        NODE + "replication/push.py",
        "        is_lost = not told.log_end and place.source.counts_on(self.follower)",
        "        is_lost = False",
        told="a_replica_loses_its_log_as_it_is_proposed",
    ),
    Mutant(
        "what comes on a replaced connection for forwarded requests is stored",
        NODE + "forwarding.py",
        '            before.hang_up("replaced")\n',
        "            pass\n",
        told="what_is_sent_on_keeps_its_order",
    ),
    Mutant(
        "a forwarded produce without an answer is called not stored",
        NODE + "sessions/produce_elsewhere.py",
        "error = ErrorCode.NOT_ACKNOWLEDGED_IN_TIME if sent else ErrorCode.NO_LEADER",
        "error = ErrorCode.NO_LEADER",
        told="old_clients_know_one_broker",
    ),
    Mutant(
        "a client of the old document is told of leaders",
        NODE + "sessions/produce.py",
        "    if old and error == ErrorCode.NO_LEADER:",
        "    if False:",
        told="old_clients_know_one_broker",
    ),
    Mutant(
        "damage that a running broker finds is kept to itself",
        NODE + "scrubbing.py",
        "            self._broker.roles.failed(partition)\n",
        "",
        also=(
            (
                NODE + "upkeep.py",
                "        if log.state is not LogState.ACTIVE:  # also",
                "        if log.state is LogState.FAILED:  # also",
            ),
        ),
        told="a_running_leader_finds_damage",
    ),
    Mutant(
        "what has changed at the end of a log is cut, and stays in sync",
        NODE + "log/recovery.py",
        "            sure or is_good_behind(",
        "            is_good_behind(",
        told="an_end_changes_while_its_process_is_down",
    ),
    Mutant(
        "an old log stays longer than that of an unclean election's leader",
        NODE + "replication/follow.py",
        "    return _ENDS if verdict == TAKE else verdict",
        "    return verdict",
        told="an_old_log_comes_back_after_an_unclean_election",
    ),
    Mutant(
        "what was compacted for the sake of lost batches stays",
        NODE + "replication/follow.py",
        "    return order.start <= standing.compacted_through or order.log_start < standing.log_start",
        "    return order.log_start < standing.log_start",
        told="what_was_compacted_for_what_is_lost_comes_back",
    ),
    Mutant(
        "what retention took while others had more stays away",
        NODE + "replication/follow.py",
        "    return order.start <= standing.compacted_through or order.log_start < standing.log_start",
        "    return order.start <= standing.compacted_through",
        told="what_retention_took_before_a_loss_comes_back",
    ),
    Mutant(
        "what was moved away is deleted by an old view",
        NODE + "moved_away.py",
        "        self._link.await_view(self._answered)",
        "        self._answered(True)",
        told="a_replica_is_moved_away_and_back_unheard",
    ),
    Mutant(
        "a replica that is filled anew knows no producers of before",
        NODE + "replication/push.py",
        "producers = source.producers_before(place.sent + 1)",
        'producers = b""',
        told="a_producer_outlives_what_it_wrote",
    ),
    Mutant(
        "a producer's memory that cannot be read ends more than its request",
        NODE + "partition.py",
        "except StorageError as error:  # its memory is read from the disk where it isn't there",
        "except ZeroDivisionError as error:",
        told="a_producers_memory_cannot_be_read",
    ),
    Mutant(
        "blocks of producer ids overlap",
        "controller/tank_controller/producers.py",
        "FIRST_OF_BLOCKS + state.index * MAX_BLOCK_IDS",
        "FIRST_OF_BLOCKS + state.index",
        told="no_producer_id_is_given_twice",
    ),
    Mutant(
        "brokers stay with a silent controller until they are silent themselves",
        NODE + "controllers/session.py",
        "return self._timeout_ms // SILENCES if self._wanted_epoch else self._timeout_ms",
        "return self._timeout_ms",
        told="a_machine_with_both_leaders_is_lost",
    ),
    Mutant(
        "a new leader waits a whole session for a broker that does not come",
        "controller/tank_controller/sessions.py",
        "until_ms = min(until_ms, self._arrivals_end_ms or until_ms)",
        "pass",
        told="a_machine_with_both_leaders_is_lost",
    ),
)
