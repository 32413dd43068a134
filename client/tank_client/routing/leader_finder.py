"""Finds the leader of a partition: when an answer cannot name the leader, or when a leader is doubted.

A broker that does not lead a partition cannot always name the leader: some answers have no field for it,
others carry IPv4 addresses although the brokers have names. And a broker that is cut off from the others
takes itself for the leader. The answer to DescribeTopics, from any broker, names leaders by host, port and
leader epoch: the finder sends it, and the greatest epoch wins (`Routes.learn`).
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from tank_client import errors
from tank_client.model import Address, BrokerDescription, Route, TopicDescription
from tank_client.routing.leader_search import Found, LeaderSearch
from tank_client.routing.pool import Pool
from tank_client.wire import topic_operations
from tank_client.wire.operations import Redirected, has
from tank_client.wire.transport import BrokerTransport

Finding = asyncio.Future[None] | asyncio.Task[bool]
"""Done when the leader was found, or the search was given up."""
LEADERLESS = (errors.ConnectionLost, errors.NoLeader, errors.OtherLeader)
"""The partition has no leader now, or its leader is not known."""
_UNABLE = (errors.NotAcknowledgedInTime, errors.NotEnoughReplicas, errors.StorageFailure)
"""Answers of a leader that cannot serve the request now, or that was replaced; another broker may lead by
now.
"""
_MISSES_SOMETHING = (errors.OutOfOrderSequence, errors.UnknownProducer)
"""Answers of a leader that lacks earlier bundles of a producer."""
_SUSPECTS_IN_A_SILENCE = 4
"""How often in `silence_ms` another broker is asked about a leader whose answers are late. A new leader may
take seconds to be elected, and producers wait until the client knows it.
"""

SILENCES = 2
"""How many times `silence_ms` a question may take, with its connection: when the asked broker hangs, the next
one is asked soon.
"""
_BESIDE = 3
"""How many further brokers are asked while the answer to a question is late, a fraction of `silence_ms`
apart: a lost machine may be known by two addresses, its own and a Service's.
"""


class LeaderFinder:
    """Keeps what the client knows of topics and their leaders, and asks brokers to update it.

    Questions run as tasks of their own, one per topic at a time. A failure of a question is not reported: a
    caller that needs the answer asks again.
    """

    MAX_TOPICS = 100_000

    def __init__(self, pool: Pool, random: Callable[[], float]) -> None:
        self._pool = pool
        pool.on_silence = self._suspect
        self._finding: dict[str, asyncio.Task[bool]] = {}
        self._search = LeaderSearch(pool, self._ask, self._tell, random)
        self._listeners: set[Found] = set()
        # Whether any broker has named a leader; a broker of the old document never does.
        self._are_named = False
        # {topic: partitions} of topics that existed when they were described; bounded by MAX_TOPICS.
        self._there: dict[str, int] = {}
        # Since when brokers answer that they don't know a topic, or not all its partitions; bounded by
        # MAX_TOPICS.
        self._missed_at: dict[str, float] = {}
        # Since when, and when last, leaders answered that they end below the requested number; bounded by
        # MAX_TOPICS.
        self._short_at: dict[Route, tuple[float, float]] = {}
        # The same for answers of leaders that they lack earlier bundles of a producer.
        self._missing_at: dict[Route, tuple[float, float]] = {}
        # When a topic's leaders were learned last, or asked for; of the topics in `_there` and a few others.
        self._looked_at: dict[str, float] = {}

    def learn(self, brokers: Sequence[BrokerDescription], topics: Iterable[TopicDescription]) -> None:
        """Takes a description: the brokers, and the leaders of partitions."""
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
                        found |= self._search.found(route)
        if news or found:
            # The wait for a leader that turns out to be the same ends, too, but only when its pause is over:
            # otherwise a broker that breaks each connection would be asked without end.
            self._tell(news)

    def listen(self, listener: Found) -> Callable[[], None]:
        """Calls `listener` with partitions that have another leader now, or whose search ended without a
        leader, and with no partitions when another search ends. Returns a function that removes the listener.
        """
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def is_sought(self, route: Route) -> bool:
        """Whether a search for the partition's leader is under way; listeners are called when it ends."""
        return route in self._search

    def _tell(self, routes: Collection[Route]) -> None:
        for listener in list(self._listeners):
            listener(routes)

    def is_there(self, topic: str, partitions: int) -> None:
        """Notes that the topic exists, with at least that many partitions."""
        if len(self._there) >= self.MAX_TOPICS and topic not in self._there:
            self._there.clear()
            self._missed_at.clear()
        if partitions >= self._there.get(topic, 0):  # a broker that names fewer partitions may be behind
            self._there[topic] = partitions
            self._missed_at.pop(topic, None)

    def is_gone(self, topic: str) -> None:
        """Notes that the topic does not exist any more."""
        self._there.pop(topic, None)
        self._missed_at.pop(topic, None)

    def lagging(self, error: errors.TankError, at: Address) -> errors.ViewBehind | None:
        """Judges that broker's error about an unknown topic or partition. Returns None when the error counts.
        Returns ViewBehind when there are several brokers, and a topic is unknown, or a partition that existed
        before: this broker may not have learned of it, and another broker is asked. The topic is gone when
        brokers say so for `view_lag_ms`; one that this client has never seen, when they say so for
        `new_topic_lag_ms`.
        """
        if isinstance(error, errors.OutOfBounds):
            return self._ends_too_soon(error, at)
        if not isinstance(error, errors.UnknownTopic | errors.UnknownPartition):
            return None
        settings, partitions = self._pool.settings, self._there.get(error.topic, 0)
        if isinstance(error, errors.UnknownPartition) and error.partition >= partitions:
            return None
        if len(self._pool.routes.known_servers) < 2:
            return None
        lag_ms = settings.view_lag_ms if partitions else settings.new_topic_lag_ms
        if len(self._missed_at) >= self.MAX_TOPICS and error.topic not in self._missed_at:
            self._missed_at.clear()
        now = asyncio.get_running_loop().time()
        since = self._missed_at.setdefault(error.topic, now)
        if now - since >= lag_ms / 1000:
            self.is_gone(error.topic)
            return None
        self._pool.routes.leave(at)
        self.find(error.topic, self._pool.routes.other(at))
        return errors.ViewBehind(f"{at} has not heard of it yet: {error}")

    def delivered(self, route: Route) -> None:
        """Notes that the partition's leader had the requested messages."""
        self._short_at.pop(route, None)

    def _ends_too_soon(self, error: errors.OutOfBounds, at: Address) -> errors.ViewBehind | None:
        """As `lagging`, for a number above the leader's end: a leader that is cut off from the others has
        fewer messages than they have, and its readers would go back. The error counts when no other leader is
        named for `view_lag_ms`.
        """
        routes = self._pool.routes
        # A client that has just connected knows no other broker yet, and is asking for them.
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
        """As `lagging`, for earlier bundles of a producer: a leader that was frozen, or is cut off, lacks the
        messages that the next leader has stored since. To take its answer for final would end the producer,
        and report a bundle as not stored that may be stored. Other brokers are asked for the leader for
        `view_lag_ms`.
        """
        routes = self._pool.routes
        alone = len(routes.known_servers) < 2 and route[0] not in self._finding
        if not isinstance(error, _MISSES_SOMETHING) or alone:
            return None
        if self._is_said_for_long(self._missing_at, route):
            return None  # the next such answer soon after counts, too: a bundle may be sent again in pieces
        self.find(route[0], routes.other(at))
        return errors.ViewBehind(f"{at} may be behind: {error}")

    def _is_said_for_long(self, said: dict[Route, tuple[float, float]], route: Route) -> bool:
        """Whether leaders of that partition have repeated the same answer for `view_lag_ms`, so that it
        counts.
        """
        settings = self._pool.settings
        now, lag_s = asyncio.get_running_loop().time(), settings.view_lag_ms / 1000
        if len(said) >= self.MAX_TOPICS and route not in said:
            said.clear()
        since, last = said.get(route, (now, now))
        if now - last > max(lag_s, 2 * settings.backoff_max_ms / 1000):
            since = now  # the earlier answer was too long ago to belong to this one
        said[route] = since, now
        return now - since >= lag_s

    def failed(self, route: Route, error: errors.TankError, at: Address) -> Finding | None:
        """Takes the failure of a request about that partition at that broker: follows a redirect, or asks for
        the leader. Returns None when no broker needs to be asked; else a future that is done when the leader
        is known or the search has ended.
        """
        routes = self._pool.routes
        if isinstance(error, _UNABLE):
            # A replaced leader may be the first to know the new one, but not when it is cut off.
            return self.find(route[0], at, routes.other(at))
        if not isinstance(error, LEADERLESS):
            return None
        first, news = routes.other(at), False
        if isinstance(error, Redirected):
            if error.leader is None:
                routes.forget(route)
                first = at  # this broker knows the leader, but its answer had no field for it
            else:
                news = routes.learn(route, error.leader)
        if routes.is_elsewhere(route, at):
            if self._search.found(route) or news:
                # Other requests to that broker may wait for this search. They are woken later, because the
                # caller is in the middle of its work.
                asyncio.get_running_loop().call_soon(self._tell, [route] if news else [])
            return None
        return self._search.begin(route, first) if self._are_named else self._find_alone(route, error, first)

    def _find_alone(self, route: Route, error: errors.TankError, at: Address) -> asyncio.Task[bool] | None:
        """Asks only once when the answer says that another broker leads and no broker has named a leader yet:
        perhaps these brokers never do.
        """
        return None if isinstance(error, errors.ConnectionLost) else self.find(route[0], at)

    def meet(self, topic: str, transport: BrokerTransport) -> None:
        """Notes a request about the topic to that broker. At first, and every `metadata_max_age_ms`, the
        broker is also asked for the other brokers, so that the client can do without it."""
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
        """Asks another broker for the leader, every `doubt_after_ms`, because nothing new comes from the
        known leader. Returns None when the last question was too recent.
        """
        now, routes = asyncio.get_running_loop().time(), self._pool.routes
        seen = self._looked_at.get(route[0])
        if seen is None:
            self._looked(route[0])
        if seen is None or now - seen < self._pool.settings.doubt_after_ms / 1000:
            return None
        other = routes.other(routes.target(route))
        return None if other == routes.target(route) else self.find(route[0], other)

    def find(self, topic: str, *at: Address) -> asyncio.Task[bool]:
        """Asks these brokers, one after the other, for the leaders of the topic's partitions, unless a
        question is under way; asks further brokers when answers are late. The task's result: whether a broker
        answered.
        """
        task = self._finding.get(topic)
        if task is None:
            self._looked(topic)
            task = self._finding[topic] = asyncio.get_running_loop().create_task(self._find(topic, at))
            task.add_done_callback(lambda done: self._found(topic, done))
        return task

    async def _ask(self, topic: str, at: Address) -> bool:
        """As `find`, for a caller that continues when it fails."""
        finding = self.find(topic, at)
        await asyncio.wait({finding})
        return not finding.cancelled() and finding.exception() is None and finding.result()

    def end(self) -> None:
        """Ends all questions."""
        self._search.end()
        for task in self._finding.values():
            task.cancel()

    def _suspect(self, transport: BrokerTransport) -> None:
        """Handles a broker whose answers are late, and that may be frozen. Asks another broker, from time to
        time, for the leaders of the waiting partitions, one topic after the other; when another broker leads,
        the requests move there.
        """
        address, routes = transport.address, self._pool.routes
        if len(routes.known_servers) < 2:
            return
        late = transport.late()
        about = {route for route in late if route is not None}
        if None in late:
            # From now on other brokers are asked, if they can answer; if this one hangs, they lead its
            # partitions.
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

    def _leave(self, transport: BrokerTransport, about: set[Route]) -> bool:
        """Ends the connection when a late answer on it is about a partition that another broker leads now."""
        address, routes, late = transport.address, self._pool.routes, transport.late()
        for route in about if None in late else about & late:
            if routes.is_elsewhere(route, address):
                transport.close(f"{address} does not answer, and {routes.target(route)} leads now")
                return True
        return False

    @property
    def _hurry_s(self) -> float:
        """How long a broker may be late with an answer before another broker is asked, too."""
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
        """Asks that broker for the topic's leaders; returns whether it answered. Failures are not
        reported.
        """
        settings = self._pool.settings
        try:
            async with asyncio.timeout(SILENCES * settings.silence_ms / 1000):
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
            raise error  # a bug of this client: the loop reports it

    def _looked(self, topic: str) -> None:
        if len(self._looked_at) >= self.MAX_TOPICS and topic not in self._looked_at:
            self._looked_at.clear()
        self._looked_at[topic] = asyncio.get_running_loop().time()
