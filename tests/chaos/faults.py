"""What can happen to a cluster: each fault breaks something, lasts a while, and heals it again."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos.members import Member, Members, stop_together, until

FROZEN_S = 13.0
"""Longer than a session (6 s), than a follower may lag (3 s), than a producer waits for replicas (8 s), than
our client waits for an answer (10 s), and than a client of the wire does (12 s)."""
CUT_S = 13.0
FULL_S = 5.0
MET_S = 90.0
"""Within so long a full disk must be met: small segments grow a page each second or two."""
FLAPS = 5
DOWN_S = 2.0
"""A killed process stays away so long: it is fenced meanwhile."""


@dataclass(slots=True)
class Scene:
    """What a fault may look at and touch."""

    members: Members
    chance: random.Random
    leader_of: Callable[[], int]
    """The broker that leads a partition, chosen by chance among all."""
    tell: Callable[[str], None]
    change_metadata: Callable[[], None]
    """Some KiB more for the controllers' logs; an error of it is none."""

    def broker(self, number: int) -> Member:
        """By its number."""
        return next(member for member in self.members.brokers if member.number == number)

    def any_broker(self) -> Member:
        return self.chance.choice(self.members.brokers)

    def leading_broker(self) -> Member:
        return self.broker(self.leader_of())

    def following_controller(self) -> Member:
        leader = self.members.leader()
        return self.chance.choice([member for member in self.members.controllers if member is not leader])


def back(member: Member) -> None:
    """Starts it; returns when it is ready."""
    member.start()
    member.await_ready()


def kill(scene: Scene, member: Member) -> None:
    scene.tell(f"kill -9 {member.name}")
    member.kill()
    time.sleep(scene.chance.choice((0.0, DOWN_S)))
    back(member)


def kill_leading_broker(scene: Scene) -> None:
    kill(scene, scene.leading_broker())


def kill_controller(scene: Scene) -> None:
    kill(scene, scene.chance.choice(scene.members.controllers))


def kill_leading_controller(scene: Scene) -> None:
    kill(scene, scene.members.leader())


def kill_both_leaders(scene: Scene) -> None:
    """At once: a broker that leads, and the controller that would have to replace it."""
    controller, broker = scene.members.leader(), scene.leading_broker()
    scene.tell(f"kill -9 {controller.name} and {broker.name}")
    controller.kill()
    broker.kill()
    time.sleep(DOWN_S)
    back(controller)
    back(broker)


def kill_all(scene: Scene) -> None:
    """Every process at the same moment; what they wrote is in the system's memory still."""
    scene.tell("kill -9 all controllers and brokers")
    for member in scene.members.all:
        member.kill()
    scene.members.start_all()


def stop_all(scene: Scene) -> None:
    """SIGTERM to every process at the same moment: nobody is left to take over."""
    scene.tell("stop all controllers and brokers at once, in order")
    stop_together(scene.members.all)
    scene.members.start_all()


def freeze(scene: Scene, member: Member) -> None:
    scene.tell(f"freeze {member.name} for {FROZEN_S:.0f} s")
    member.freeze()
    time.sleep(FROZEN_S)
    member.thaw()


def freeze_leading_broker(scene: Scene) -> None:
    freeze(scene, scene.leading_broker())


def freeze_leading_controller(scene: Scene) -> None:
    freeze(scene, scene.members.leader())


def freeze_following_controller(scene: Scene) -> None:
    freeze(scene, scene.following_controller())


def cut_one_way(scene: Scene) -> None:
    """Of a leader, of partitions or of the controllers, and others: one side speaks, and doesn't hear."""
    members = scene.members
    source = scene.chance.choice((scene.leading_broker(), scene.leading_broker(), members.leader()))
    broker = scene.chance.choice([member for member in members.brokers if member is not source])
    controllers = [member for member in members.controllers if member is not source]
    targets = scene.chance.choice(([broker], controllers))
    names = ", ".join(member.name for member in targets)
    if scene.chance.random() < 0.5:
        scene.tell(f"nothing gets from {source.name} to {names} for {CUT_S:.0f} s")
        links = [(source, target) for target in targets]
    else:
        scene.tell(f"nothing gets to {source.name} from {names} for {CUT_S:.0f} s")
        links = [(target, source) for target in targets]
    for one, other in links:
        members.network.cut(one.host, other.host)
    time.sleep(CUT_S)
    members.network.mend()


def cut_both_ways(scene: Scene) -> None:
    """A leading broker and one other member don't hear each other; all else goes on."""
    one = scene.leading_broker()
    other = scene.chance.choice([member for member in scene.members.all if member is not one])
    scene.tell(f"nothing gets between {one.name} and {other.name} for {CUT_S:.0f} s")
    scene.members.network.cut(one.host, other.host)
    scene.members.network.cut(other.host, one.host)
    time.sleep(CUT_S)
    scene.members.network.mend()


def flap(scene: Scene) -> None:
    """The link between a leading broker and another member comes and goes."""
    one = scene.leading_broker()
    other = scene.chance.choice([member for member in scene.members.all if member is not one])
    scene.tell(f"the link between {one.name} and {other.name} goes {FLAPS} times for less than 2 s")
    for _ in range(FLAPS):
        scene.members.network.cut(one.host, other.host)
        scene.members.network.cut(other.host, one.host)
        time.sleep(scene.chance.uniform(0.2, 2))
        scene.members.network.mend()
        time.sleep(scene.chance.uniform(0.1, 1))


def isolate(scene: Scene, *members: Member) -> None:
    """Cut off from all other members both ways; clients reach them, and they each other."""
    scene.tell(f"cut {' and '.join(each.name for each in members)} off from all others for {CUT_S:.0f} s")
    for member in members:
        for other in scene.members.all:
            if other not in members:
                scene.members.network.cut(member.host, other.host)
                scene.members.network.cut(other.host, member.host)
    time.sleep(CUT_S)
    scene.members.network.mend()


def isolate_leading_broker(scene: Scene) -> None:
    isolate(scene, scene.leading_broker())


def isolate_leading_controller(scene: Scene) -> None:
    isolate(scene, scene.members.leader())


def isolate_both_leaders(scene: Scene) -> None:
    """As if the machine were lost on which both are."""
    isolate(scene, scene.members.leader(), scene.leading_broker())


def isolate_following_controller(scene: Scene) -> None:
    """It asks to be elected again and again meanwhile, and must not get in the way when it is back."""
    isolate(scene, scene.following_controller())


def fill_disk(scene: Scene, members: Sequence[Member], write: Callable[[], None]) -> None:
    """Until some seconds after it was met: what was allocated ahead takes writes for a while. write: has
    something written."""
    member = next(member for member in members if member.small_disk)
    scene.tell(f"fill the disk of {member.name}, for {FULL_S:.0f} s from when it meets that")
    before = member.met_full_disk()

    def met() -> bool:
        write()
        return member.met_full_disk() > before

    member.fill_disk()
    try:
        until(met, f"{member.name} doesn't meet its full disk", MET_S)
        time.sleep(FULL_S)
    finally:
        member.free_disk()


def fill_broker(scene: Scene) -> None:
    """Under the load of the clients, which meets it within a few seconds."""
    fill_disk(scene, scene.members.brokers, lambda: None)


def fill_controller(scene: Scene) -> None:
    fill_disk(scene, scene.members.controllers, scene.change_metadata)


def tear_tail(scene: Scene) -> None:
    member = scene.any_broker()
    scene.tell(f"kill -9 {member.name} and leave torn writes at the ends of its logs")
    member.kill()
    member.tear_tail(scene.chance)
    back(member)


def lose_indexes(scene: Scene) -> None:
    """Of a killed broker: it has to be filled anew there."""
    member = scene.any_broker()
    member.kill()
    lost = member.lose_indexes(scene.chance)
    scene.tell(f"kill -9 {member.name} and delete the indexes of {lost} partitions")
    back(member)


def empty_broker(scene: Scene) -> None:
    member = scene.any_broker()
    scene.tell(f"kill -9 {member.name} and empty its disk")
    member.kill()
    member.empty_disk()
    back(member)


def empty_controller(scene: Scene) -> None:
    member = scene.chance.choice(scene.members.controllers)
    scene.tell(f"kill -9 {member.name} and empty its disk")
    member.kill()
    member.empty_disk()
    back(member)


def roll_brokers(scene: Scene) -> None:
    """SIGTERM and start, one after the other, each ready before the next."""
    scene.tell("restart all brokers in turn")
    for member in scene.members.brokers:
        member.stop()
        back(member)


def roll_controllers(scene: Scene) -> None:
    scene.tell("restart all controllers in turn")
    for member in scene.members.controllers:
        member.stop()
        back(member)


@dataclass(slots=True, frozen=True)
class Fault:
    """A kind of fault, as the report counts it."""

    name: str
    strike: Callable[[Scene], None]
    needs_links: bool = False
    needs_small_disk: bool = False


FAULTS = (
    Fault("kill a leading broker", kill_leading_broker),
    Fault("kill a controller", kill_controller),
    Fault("kill the leading controller", kill_leading_controller),
    Fault("kill both leaders", kill_both_leaders),
    Fault("kill everything", kill_all),
    Fault("stop everything", stop_all),
    Fault("freeze a leading broker", freeze_leading_broker),
    Fault("freeze the leading controller", freeze_leading_controller),
    Fault("freeze a following controller", freeze_following_controller),
    Fault("cut a link one way", cut_one_way, needs_links=True),
    Fault("cut a link both ways", cut_both_ways, needs_links=True),
    Fault("let a link come and go", flap, needs_links=True),
    Fault("cut a leading broker off", isolate_leading_broker, needs_links=True),
    Fault("cut the leading controller off", isolate_leading_controller, needs_links=True),
    Fault("cut both leaders off", isolate_both_leaders, needs_links=True),
    Fault("cut a following controller off", isolate_following_controller, needs_links=True),
    Fault("fill a broker's disk", fill_broker, needs_small_disk=True),
    Fault("fill a controller's disk", fill_controller, needs_small_disk=True),
    Fault("tear the tails of logs", tear_tail),
    Fault("lose indexes", lose_indexes),
    Fault("empty a broker's disk", empty_broker),
    Fault("empty a controller's disk", empty_controller),
    Fault("restart the brokers", roll_brokers),
    Fault("restart the controllers", roll_controllers),
)


def possible(members: Members, only: str) -> tuple[list[Fault], list[str]]:
    """Of those that have `only` in their names: those that can be made here, and the names of the others."""
    wanted = [fault for fault in FAULTS if only in fault.name]
    small = all(any(member.small_disk for member in role) for role in (members.controllers, members.brokers))
    can = [
        fault
        for fault in wanted
        if (members.network.cuts or not fault.needs_links) and (small or not fault.needs_small_disk)
    ]
    return can, [fault.name for fault in wanted if fault not in can]


__all__ = ["FAULTS", "Fault", "Scene", "possible"]
