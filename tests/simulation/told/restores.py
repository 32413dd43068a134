"""Told stories of a controller's disk that is restored to an earlier state."""

import copy
from collections.abc import Callable

from tank_controller.raft.messages import RaftMessage, VoteRequest
from tank_controller.raft_node import wire
from tests.simulation.told.controllers import telling_controllers
from tests.simulation.world.controllers import Controller
from tests.simulation.world.world import MS, SECOND, must


def _has_heard(node: Controller) -> bool:
    """Whether it knows what it may have promised."""
    own = None if node.driver is None else node.raft.recollection
    return own is not None and own.floor is not None


def a_controllers_folder_is_put_back_in_time() -> None:
    """Two hold what is committed; the disk of one of them is put back, and the other dies as soon as it was
    asked. The third one, which lacks it, is not elected with the help of a disk that forgot it."""
    with telling_controllers() as story:
        story.write()
        leader = story.leader
        late, forgets = story.others
        earlier = copy.deepcopy(forgets.disk)
        story.network.cut([late.name], [leader.name, forgets.name], one_way=False)
        story.write()
        has = leader.raft.log.last_index
        forgets.end(False)
        forgets.put_back(earlier)
        story.network.heal()
        story.network.cut([leader.name], [late.name], one_way=True)
        story.go_on(50 * MS)  # the leader's next heartbeat, which mends it, is far off
        forgets.start()
        story.until(lambda: _has_heard(forgets), "the others' answers")
        leader.end(False)
        story.network.heal()
        must(late.raft.log.last_index < has, "the late one has it already")
        must(forgets.raft.log.last_index < has, "the one that forgot it has it already")
        story.go_on(8 * SECOND)
        must(story.cluster.leader() is None, "a log is elected that lacks what was committed")
        leader.start()
        story.write()


def a_vote_is_forgotten_by_a_folder_put_back() -> None:
    """The disk is of before the vote. Whoever got it has told the term, and in that no other gets it."""
    with telling_controllers() as story:
        story.write()
        story.go_on(SECOND)
        before = story.leader
        candidate, voter = story.others
        earlier = {node: copy.deepcopy(node.disk) for node in (candidate, voter)}
        before.end(False)
        story.until(lambda: story.cluster.leader() is not None, "another leader")
        if story.leader is voter:
            candidate, voter = voter, candidate
        before.start()
        story.until(lambda: before.driver is not None and before.raft.leader == candidate.own, "a follower")
        story.write()
        story.go_on(SECOND)
        voter.end(False)
        voter.put_back(earlier[voter])
        voter.start()
        story.until(lambda: _has_heard(voter), "the others' answers")
        log = before.raft.log
        request = VoteRequest(log.last_index, log.last_term)
        asked = RaftMessage(voter.raft.cluster_id, before.own, voter.own, candidate.raft.term, request)
        assert voter.life is not None
        story.world.guarded(voter.life, lambda: voter.take(wire.encode(asked).SerializeToString()))
        story.go_on(SECOND)
        story.write()


def a_folder_put_back_ends_with_other_entries() -> None:
    """They were replaced once, and are there again; the leader's word of what that disk has is of the process
    before. It finds out anew, though nothing is written."""
    with telling_controllers() as story:
        story.write()
        story.go_on(SECOND)
        alone = story.leader
        story.network.cut([alone.name], [node.name for node in story.others], one_way=False)
        last = alone.raft.log.last_index
        story.ask()
        story.until(lambda: alone.raft.log.stable > last, "an entry that the others lack")
        alone.end(False)
        earlier = copy.deepcopy(alone.disk)
        story.network.heal()
        story.write()
        alone.start()
        story.until(lambda: alone.driver is not None and alone.raft.leader is not None, "its leader")
        story.write()
        story.go_on(SECOND)
        must(
            alone.raft.log.commit == story.leader.raft.log.commit, "it is behind before its disk is put back"
        )
        alone.end(True)
        alone.put_back(earlier)
        story.go_on(MS)
        alone.start()
        story.until(lambda: alone.raft.log.commit == story.leader.raft.log.commit, "what it lacked")
        story.write()


STORIES: tuple[Callable[[], None], ...] = (
    a_controllers_folder_is_put_back_in_time,
    a_vote_is_forgotten_by_a_folder_put_back,
    a_folder_put_back_ends_with_other_entries,
)
