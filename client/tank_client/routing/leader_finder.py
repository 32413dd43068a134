"""Who leads what: asked of whoever answers, when an answer can't name the leader, or when one is doubted.

A broker that doesn't lead a partition can't always say who does: some answers have no place for it, others
carry IPv4 addresses and the brokers have names. And a broker that is cut off from the others believes that it
leads for as long as that lasts. DescribeTopics names leaders by host, port and leader epoch, at any broker:
here it is asked, and the greatest epoch wins (`Routes.learn`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from tank_client import errors
from tank_client.model import Address, BrokerDescription, TopicDescription
from tank_client.routing.pool import Pool
from tank_client.routing.routes import Route
from tank_client.routing.seeking import Found, Seeking
from tank_client.wire import topic_operations
from tank_client.wire.operations import Redirected, has
from tank_client.wire.transport import Transport

Finding = asyncio.Future[None] | asyncio.Task[bool]
"""Done when it was found out who leads, or given up."""
LEADERLESS = (errors.ConnectionLost, errors.NoLeader, errors.OtherLeader)
"""Nobody leads now, or it isn't known who does."""
_UNABLE = (errors.NotAcknowledgedInTime, errors.NotEnoughReplicas, errors.StorageFailure)
"""What a leader answers that can't do it now, or leads no longer; another one may lead by now."""
_MISSES_SOMETHING = (errors.OutOfOrderSequence, errors.UnknownProducer)
"""What a leader answers that lacks what a producer has sent before."""
_SUSPECTS_IN_A_SILENCE = 4
"""So often in `silence_ms` somebody is asked about the leader whose answers are late: it may take seconds
until another one leads, and nobody can write until we know."""

_SILENCES = 2
"""How many times `silence_ms` a question may take, with its connection: where the one that is asked hangs,
the next one is to be asked soon."""
_BESIDE = 3
"""So many further brokers are asked beside those that are late with the answer to a question, a fraction of
`silence_ms` apart: a machine that is gone may be known by two addresses, its own and a Service's."""


class Leaders:
    """What the client knows of topics and their leaders, and how it finds out.

    Questions run as tasks of their own, one per topic at a time; what goes wrong in one goes unsaid: whoever
    needs the answer asks again."""

    MAX_TOPICS = 100_000

    def __init__(self, pool: Pool, random: Callable[[], float]) -> None:
        self._pool = pool
        pool.on_silence = self._suspect
        self._finding: dict[str, asyncio.Task[bool]] = {}
        self._seeking = Seeking(pool, self._ask, self._tell, random)
        self._listeners: set[Found] = set()
        # Whether a broker here has named a leader: one of the old document never does.
        self._are_named = False
        # {topic: partitions} of topics that were there when somebody looked; bounded by MAX_TOPICS.
        self._there: dict[str, int] = {}
        # Since when brokers say that they don't know such a topic, or not all its partitions. Only of those
        # in `_there`.
        self._missed_at: dict[str, float] = {}
        # Since when, and when last, leaders say that they end below the number asked for; bounded by
        # MAX_TOPICS.
        self._short_at: dict[Route, tuple[float, float]] = {}
        # The same of those who say that they lack what a producer has sent.
        self._missing_at: dict[Route, tuple[float, float]] = {}
        # When a topic's leaders were told last, or asked for; of the topics in `_there` and a few others.
        self._looked_at: dict[str, float] = {}

    def learn(self, brokers: Sequence[BrokerDescription], topics: Iterable[TopicDescription]) -> None:
        """What a description says: the brokers, and who leads."""
        pool = self._pool
        pool.know(brokers)
        at = {broker.broker_id: pool.address_of(broker) for broker in brokers if broker.address.port}
        pool.routes.know(at.values())
        news: list[Route] = []
        found = False
        for topic in topics:
            self.is_there(topic.name, len(topic.partitions))
            self._looked(topic.name)
            for partition in topic.partitions:
                leader = None if partition.leader is None else at.get(partition.leader)
                if leader is not None:
                    self._are_named = True
                    route, term = (topic.name, partition.partition), (topic.topic_id, partition.leader_epoch)
                    if pool.routes.learn(route, leader, term):
                        news.append(route)
                    if pool.routes.knows(route):
                        found |= self._seeking.found(route)
        if news or found:
            # Who waits for one that was found where it was goes on, too, but not before its pause is over:
            # a broker that breaks each connection would be asked without end.
            self._tell(news)

    def listen(self, listener: Found) -> Callable[[], None]:
        """`listener` is told of partitions of which another leader is known now, or that were sought in
        vain, and of none when others are sought no longer; ends when what this gives is called."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def is_sought(self, route: Route) -> bool:
        """Whether its leader is being asked for: `listen` tells when that ends."""
        return route in self._seeking

    def _tell(self, routes: Collection[Route]) -> None:
        for listener in list(self._listeners):
            listener(routes)

    def is_there(self, topic: str, partitions: int) -> None:
        """That topic is there, with that many partitions at least."""
        if len(self._there) >= self.MAX_TOPICS and topic not in self._there:
            self._there.clear()
            self._missed_at.clear()
        if partitions >= self._there.get(topic, 0):  # who tells of fewer may be the one that is behind
            self._there[topic] = partitions
            self._missed_at.pop(topic, None)

    def is_gone(self, topic: str) -> None:
        """There is no such topic any more."""
        self._there.pop(topic, None)
        self._missed_at.pop(topic, None)

    def lagging(self, error: errors.TankError, at: Address) -> errors.ViewBehind | None:
        """What to take the error for that the broker there answers. None: for what it says. ViewBehind: the
        topic or partition was there, and there are several brokers, of which this one may have heard the
        least; another one is asked. The topic is gone when all say so for `view_lag_ms`."""
        if isinstance(error, errors.OutOfBounds):
            return self._ends_too_soon(error, at)
        if isinstance(error, errors.UnknownTopic):
            known = error.topic in self._there
        elif isinstance(error, errors.UnknownPartition):
            known = error.partition < self._there.get(error.topic, 0)
        else:
            return None
        if not known or len(self._pool.routes.known_servers) < 2:
            return None
        now = asyncio.get_running_loop().time()
        since = self._missed_at.setdefault(error.topic, now)
        if now - since >= self._pool.settings.view_lag_ms / 1000:
            self.is_gone(error.topic)
            return None
        self._pool.routes.leave(at)
        self.find(error.topic, self._pool.routes.other(at))
        return errors.ViewBehind(f"{at} has not heard of it yet: {error}")

    def delivered(self, route: Route) -> None:
        """That partition's leader had what it was asked for."""
        self._short_at.pop(route, None)

    def _ends_too_soon(self, error: errors.OutOfBounds, at: Address) -> errors.ViewBehind | None:
        """As `lagging`, of a number above the leader's end: one that is cut off from the others has less than
        they have, and a reader that believes it goes back. What it says counts when nobody names another
        leader for `view_lag_ms`."""
        routes = self._pool.routes
        # A client that has just come knows nobody else yet: it is asking.
        alone = len(routes.known_servers) < 2 and error.topic not in self._finding
        if error.number <= error.high_water_mark + 1 or alone:
            return None
        route = error.topic, error.partition
        if self._is_said_for_long(self._short_at, route):
            del self._short_at[route]
            return None
        self.find(error.topic, routes.other(at))
        return errors.ViewBehind(f"{at} may be behind: {error}")

    def lacking(self, route: Route, error: errors.TankError, at: Address) -> errors.ViewBehind | None:
        """As `lagging`, of what a producer has sent before: a leader that stood still, or is cut off, while
        another one took its place lacks what that one has stored since. Who believes it gives a producer up,
        and calls a bundle not stored that may be. For `view_lag_ms` others are asked who leads."""
        routes = self._pool.routes
        alone = len(routes.known_servers) < 2 and route[0] not in self._finding
        if not isinstance(error, _MISSES_SOMETHING) or alone:
            return None
        if self._is_said_for_long(self._missing_at, route):
            return None  # and so is the next one, soon: a bundle may be tried again in pieces
        self.find(route[0], routes.other(at))
        return errors.ViewBehind(f"{at} may be behind: {error}")

    def _is_said_for_long(self, said: dict[Route, tuple[float, float]], route: Route) -> bool:
        """Whether leaders say so of that partition again and again for `view_lag_ms`: then it is believed."""
        settings = self._pool.settings
        now, lag_s = asyncio.get_running_loop().time(), settings.view_lag_ms / 1000
        if len(said) >= self.MAX_TOPICS and route not in said:
            said.clear()
        since, last = said.get(route, (now, now))
        if now - last > max(lag_s, 2 * settings.backoff_max_ms / 1000):
            since = now  # that was another time, and not the next try
        said[route] = since, now
        return now - since >= lag_s

    def failed(self, route: Route, error: errors.TankError, at: Address) -> Finding | None:
        """A request about that partition failed at that broker: goes where the error says, or finds out.
        None: there is nothing to find out; else done when it was."""
        routes = self._pool.routes
        if isinstance(error, _UNABLE):
            # If it leads no longer it may be the first to know who does. If it is cut off, others know.
            return self.find(route[0], at, routes.other(at))
        if not isinstance(error, LEADERLESS):
            return None
        first, news = routes.other(at), False
        if isinstance(error, Redirected):
            if error.leader is None:
                routes.forget(route)
                first = at  # it knows the leader: only its answer had no place for it
            else:
                news = routes.learn(route, error.leader)
        if routes.is_elsewhere(route, at):
            if self._seeking.found(route) or news:
                # Others in flight there may have been answered before, and wait. They are told later: whoever
                # calls this is in the middle of something.
                asyncio.get_running_loop().call_soon(self._tell, [route] if news else [])
            return None
        return self._seeking.begin(route, first) if self._are_named else self._find_alone(route, error, first)

    def _find_alone(self, route: Route, error: errors.TankError, at: Address) -> asyncio.Task[bool] | None:
        """Before anybody has named a leader, perhaps nobody here ever does: one question, where the answer
        says that somebody leads elsewhere."""
        return None if isinstance(error, errors.ConnectionLost) else self.find(route[0], at)

    def meet(self, topic: str, transport: Transport) -> None:
        """Somebody asks that broker about the topic: at first, and every `metadata_max_age_ms`, it is asked
        who else there is, so that its end is not ours."""
        seen = self._looked_at.get(topic)
        if seen is not None:
            age_ms = (asyncio.get_running_loop().time() - seen) * 1000
            if age_ms < self._pool.settings.metadata_max_age_ms:
                return
        if has(transport.server, "describe_topics"):
            self.find(topic, transport.address)
        else:
            self._looked(topic)

    def doubt(self, route: Route) -> asyncio.Task[bool] | None:
        """Nothing new comes from that partition's leader: every `doubt_after_ms` another broker is asked who
        leads. None: not now."""
        now, routes = asyncio.get_running_loop().time(), self._pool.routes
        seen = self._looked_at.get(route[0])
        if seen is None:
            self._looked(route[0])
        if seen is None or now - seen < self._pool.settings.doubt_after_ms / 1000:
            return None
        other = routes.other(routes.target(route))
        return None if other == routes.target(route) else self.find(route[0], other)

    def find(self, topic: str, *at: Address) -> asyncio.Task[bool]:
        """Asks these brokers, one after the other, who leads the topic's partitions, unless somebody is being
        asked; further ones beside those that are late. Whether one told."""
        task = self._finding.get(topic)
        if task is None:
            self._looked(topic)
            task = self._finding[topic] = asyncio.get_running_loop().create_task(self._find(topic, at))
            task.add_done_callback(lambda done: self._found(topic, done))
        return task

    async def _ask(self, topic: str, at: Address) -> bool:
        """`find`, for who goes on when it fails."""
        finding = self.find(topic, at)
        await asyncio.wait({finding})
        return not finding.cancelled() and finding.exception() is None and finding.result()

    def end(self) -> None:
        """Asks nobody any more."""
        self._seeking.end()
        for task in self._finding.values():
            task.cancel()

    def _suspect(self, transport: Transport) -> None:
        """A broker is late with answers, frozen perhaps. Another one is asked, now and then, whether it still
        leads what they are about, one topic after the other; if not, nobody waits for it any more."""
        address, routes = transport.address, self._pool.routes
        if len(routes.known_servers) < 2:
            return
        late = transport.late()
        about = {route for route in late if route is not None}
        if None in late:
            # What others can answer they are asked from now on. If it hangs, others lead what was its.
            routes.leave(address)
            about.update(routes.led_by(address))
        if self._leave(transport, about):
            return
        topics = {topic for topic, _ in about} - self._finding.keys()
        topic = min(topics, key=lambda topic: self._looked_at.get(topic, 0.0), default=None)
        if topic is None:
            return
        since = asyncio.get_running_loop().time() - self._looked_at.get(topic, 0.0)
        if since >= self._hurry_s:
            asked = {route for route in about if route[0] == topic}
            finding = self.find(topic, routes.other(address))
            finding.add_done_callback(lambda done: self._leave(transport, asked))

    def _leave(self, transport: Transport, about: set[Route]) -> bool:
        """Ends the connection when what is late there is about a partition that somebody else leads."""
        address, routes, late = transport.address, self._pool.routes, transport.late()
        for route in about if None in late else about & late:
            if routes.is_elsewhere(route, address):
                transport.close(f"{address} does not answer, and {routes.target(route)} leads now")
                return True
        return False

    @property
    def _hurry_s(self) -> float:
        """How long one who is asked may be late before another one is asked, too."""
        return self._pool.settings.silence_ms / 1000 / _SUSPECTS_IN_A_SILENCE

    async def _find(self, topic: str, at: Collection[Address]) -> bool:
        named = list(dict.fromkeys(at))
        further = self._pool.routes.others(named)[:_BESIDE]
        told, late = False, set[asyncio.Task[bool]]()
        try:
            for number, address in enumerate([*named, *further]):
                if number >= len(named) and (told or not late):
                    break
                late.add(asyncio.create_task(self._find_at(topic, address)))
                done, late = await asyncio.wait(
                    late, timeout=self._hurry_s, return_when=asyncio.FIRST_COMPLETED
                )
                told = any(task.result() for task in done) or told
            while late and not told:
                done, late = await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
                told = any(task.result() for task in done)
        finally:
            for task in late:
                task.cancel()
        return told

    async def _find_at(self, topic: str, at: Address) -> bool:
        """Whether that broker told. What goes wrong with it goes unsaid."""
        settings = self._pool.settings
        try:
            async with asyncio.timeout(_SILENCES * settings.silence_ms / 1000):
                transport = await self._pool.at(at)
                server = transport.server
                if not has(server, "describe_topics"):
                    self._pool.routes.leave(at)
                    return False
                ask = topic_operations.describe_topics([topic])
                message = await transport.ask(
                    ask.build(server), ask.answer(server), settings.attempt_timeout_ms, ask.name
                )
                described = ask.read(message, server)
        except TimeoutError:
            self._pool.routes.leave(at)
            return False
        except errors.TankError:
            return False
        self.learn(*described)
        return True

    def _found(self, topic: str, task: asyncio.Task[bool]) -> None:
        del self._finding[topic]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, errors.TankError):
            raise error  # our own mistake: the loop says it aloud

    def _looked(self, topic: str) -> None:
        if len(self._looked_at) >= self.MAX_TOPICS and topic not in self._looked_at:
            self._looked_at.clear()
        self._looked_at[topic] = asyncio.get_running_loop().time()
