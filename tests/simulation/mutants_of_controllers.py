"""What is broken on purpose in Raft and its storage."""

from tests.simulation.mutant import Mutant

RAFT = "controller/tank_controller/raft/"
CONTROLLER = "controller/tank_controller/"


MUTANTS = (
    Mutant(
        "forgets its vote",
        RAFT + "state.py",
        "self.vote: NodeId | None = hard.vote",
        "self.vote: NodeId | None = None",
        told="a_voter_starts_again",
    ),
    Mutant(
        "counts stale votes: of those who were asked in advance",
        RAFT + "election.py",
        "if raft.role is not (Role.PRE_CANDIDATE if answer.pre else Role.CANDIDATE):",
        "if raft.role not in (Role.PRE_CANDIDATE, Role.CANDIDATE):",
        told="answers_come_twice",
        also=(
            (
                RAFT + "election.py",
                "if answer.pre and answer.granted and message.term != raft.term + 1:",
                "if False:",
            ),
        ),
    ),
    Mutant(
        "counts stale votes: of an earlier term",
        RAFT + "core.py",
        "        elif message.term < self.term:\n",
        "        elif message.term < self.term and not isinstance(message.body, VoteAnswer):\n",
        told="a_vote_comes_a_term_late",
    ),
    Mutant(
        "commits entries of old terms",
        RAFT + "replication.py",
        "if log.term(index) != raft.term or index <= log.commit:",
        "if index <= log.commit:",
        told="an_old_term_left_entries",
    ),
    Mutant(
        "half a quorum",
        RAFT + "quorum.py",
        "return voters // 2 + 1",
        "return max(voters // 2, 1)",
        told="many_ask_at_once",
    ),
    Mutant(
        "acknowledges before fsync: a controller that leads",
        RAFT + "replication.py",
        "return raft.log.stable",
        "return raft.log.last_index",
        told="many_ask_at_once",
    ),
    Mutant(
        "acknowledges before fsync: a controller that follows",
        RAFT + "messages.py",
        "SAY_SOMETHING_DURABLE = (VoteRequest, VoteAnswer, AppendAnswer)",
        "SAY_SOMETHING_DURABLE = (VoteRequest, VoteAnswer)",
        told="many_ask_at_once",
    ),
    Mutant(
        "acknowledges before fsync: messages leave before what they promise is on the disk",
        CONTROLLER + "raft_driver.py",
        "self._transport.send(ready.early)",
        "self._transport.send([*ready.early, *ready.late])",
        told="many_ask_at_once",
    ),
    Mutant(
        "truncates on stale messages",
        RAFT + "log.py",
        "if self.term(entry.index) == entry.term:",
        "if entry.index <= self.commit:",
        told="messages_come_twice_and_late",
    ),
    Mutant(
        "serves stale reads: its own term has committed nothing",
        RAFT + "reads.py",
        "if not raft.reads or raft.reads[0].round or not raft.own_term_committed:",
        "if not raft.reads or raft.reads[0].round:",
        told="a_new_leader_is_read_at_once",
    ),
    Mutant(
        "serves stale reads: nobody has confirmed that it leads",
        RAFT + "reads.py",
        "confirmed = reached_by_majority([acked(raft, voter) for voter in raft.configuration.voters])",
        "confirmed = raft.read_round",
        told="a_leader_is_read_that_leads_no_more",
    ),
    Mutant(
        "empty controllers form a new cluster though others are silent",
        RAFT + "birth.py",
        "if empty.keys() != self.ordinals:",
        "if not empty:",
        told="new_controllers_do_not_hear_each_other",
    ),
    Mutant(
        "an emptied disk rejoins as a voter",
        RAFT + "messages.py",
        "    disk: bytes\n\n    def __str__",
        "    disk: bytes = field(compare=False)\n\n    def __str__",
        also=(
            (
                RAFT + "election.py",
                "granted = free and up_to_date and log.last_index > 0",
                "granted = free and up_to_date",
            ),
        ),
        told="a_disk_is_emptied",
    ),
    Mutant(
        "votes for a shorter log",
        RAFT + "election.py",
        "granted = free and up_to_date and log.last_index > 0",
        "granted = free and log.last_index > 0",
        told="the_shorter_log_asks_first",
    ),
    Mutant(
        "a second membership change before the first is committed",
        RAFT + "membership.py",
        "    if log.configuration_index > log.commit:\n        raise",
        "    if False:\n        raise",
        told="two_are_removed_at_once",
    ),
    Mutant(
        "a leader counts on what a voter has said before when another is taken away",
        RAFT + "membership.py",
        "acked(raft, voter) >= began",
        "acked(raft, voter) >= 0",
        told="one_is_removed_while_the_disk_of_another_is_gone",
    ),
    Mutant(
        "a leader whose disk is full goes on leading",
        CONTROLLER + "raft_driver.py",
        "        self._look_at_the_disk()\n        self._go_on()",
        "        self._go_on()",
        told="the_disk_of_the_leader_is_full",
    ),
    Mutant(
        "raises the feature level without asking brokers that are away",
        CONTROLLER + "levels.py",
        "if stream is None or stream.epoch != broker.epoch or stream.max_level < level:",
        "if stream is not None and stream.max_level < level:",
        told="an_old_broker_comes_back_while_the_level_is_raised",
    ),
    Mutant(
        "raises the feature level without asking the other controllers",
        CONTROLLER + "levels.py",
        "if level > self.max_level or self.controllers_behind(level):",
        "if level > self.max_level:",
        told="a_roll_is_taken_back_before_its_end",
    ),
    Mutant(
        "takes a broker that doesn't know the feature level in force",
        CONTROLLER + "levels.py",
        "        raise Rejected(ErrorCode.INVALID_REQUEST, why)\n",
        "        pass\n",
        told="a_broker_goes_back_after_the_roll",
        also=(
            (
                CONTROLLER + "registering.py",
                "if why := levels.said(wanted).refusal(state.feature_level):",
                'if why := "":',
            ),
        ),
    ),
    Mutant(
        "a controller goes on at a feature level that it doesn't know",
        CONTROLLER + "metadata.py",
        "if command.raise_level.level > self._max_level:",
        "if False:",
        told="a_controller_goes_back_after_the_roll",
        also=((CONTROLLER + "metadata.py", "if state.feature_level > self._max_level:", "if False:"),),
    ),
    Mutant(
        "forgets the feature level in force over a snapshot",
        CONTROLLER + "snapshot_image.py",
        "feature_level=level if form >= _WITH_LEVEL else 0,",
        "feature_level=0,",
        told="a_cluster_rolls_to_a_newer_version",
    ),
    Mutant(
        "acknowledges before fsync: nothing is fsynced at all",
        CONTROLLER + "files.py",
        "        file.sync()\n",
        "        pass\n",
        told="the_power_goes",
    ),
)
