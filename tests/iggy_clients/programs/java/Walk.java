// Walks through what Iggy's Java SDK can do over TCP: `Walk HOST PORT`. Prints a line of JSON for each step: its name,
// and what was wrong; empty: nothing.
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.iggy.Iggy;
import org.apache.iggy.client.blocking.tcp.IggyTcpClient;
import org.apache.iggy.consumergroup.Consumer;
import org.apache.iggy.consumergroup.ConsumerGroupDetails;
import org.apache.iggy.identifier.ConsumerId;
import org.apache.iggy.identifier.StreamId;
import org.apache.iggy.identifier.TopicId;
import org.apache.iggy.identifier.UserId;
import org.apache.iggy.message.HeaderKey;
import org.apache.iggy.message.HeaderValue;
import org.apache.iggy.message.Message;
import org.apache.iggy.message.Partitioning;
import org.apache.iggy.message.PolledMessages;
import org.apache.iggy.message.PollingStrategy;
import org.apache.iggy.topic.CompressionAlgorithm;
import org.apache.iggy.topic.TopicDetails;
import org.apache.iggy.user.GlobalPermissions;
import org.apache.iggy.user.Permissions;
import org.apache.iggy.user.StreamPermissions;
import org.apache.iggy.user.TopicPermissions;
import org.apache.iggy.user.UserInfoDetails;
import org.apache.iggy.user.UserStatus;

public final class Walk {
    private static final int MESSAGES = 10;
    private static final BigInteger DAY_US = BigInteger.valueOf(86_400_000_000L);
    private static final BigInteger SIZE = BigInteger.valueOf(1_000_000_000L);
    private static final TopicId TOPIC = TopicId.of("steps");
    private static final TopicId OPTIONAL = TopicId.of("optional");
    private static final Consumer WALKER = Consumer.of(ConsumerId.of("walker"));

    private final String host;
    private final int port;
    private IggyTcpClient client;
    private StreamId stream = StreamId.of("walk");

    private Walk(String host, int port) {
        this.host = host;
        this.port = port;
    }

    public static void main(String[] arguments) {
        Walk walk = new Walk(arguments[0], Integer.parseInt(arguments[1]));
        walk.gettingStarted();
        walk.sessions();
        walk.streamsAndTopics();
        walk.messages();
        walk.offsets();
        walk.groups();
        walk.users();
        walk.tokens();
        walk.changes();
        new AsyncWalk(walk.host, walk.port, walk.client).run();
        walk.end();
        System.exit(0);
    }

    /** A client of one connection. Newer versions keep five, and a member of a group is a connection. */
    private IggyTcpClient connected() {
        IggyTcpClient other = Iggy.tcpClientBuilder()
                .blocking()
                .host(host)
                .port(port)
                .connectionPoolSize(1)
                .build();
        other.connect();
        return other;
    }

    private IggyTcpClient loggedIn(String name, String password) {
        return Iggy.tcpClientBuilder()
                .blocking()
                .host(host)
                .port(port)
                .connectionPoolSize(1)
                .credentials(name, password)
                .buildAndLogin();
    }

    private static String text(Message message) {
        return new String(message.payload());
    }

    private static List<Message> numbered(String prefix, int count) {
        List<Message> found = new ArrayList<>();
        for (int number = 0; number < count; number++) found.add(Message.of(prefix + number));
        return found;
    }

    private PolledMessages poll(Consumer consumer, PollingStrategy strategy, long count, boolean autoCommit) {
        return client.messages().pollMessages(stream, TOPIC, Optional.of(0L), consumer, strategy, count, autoCommit);
    }

    private List<Long> offsets(PollingStrategy strategy, long count, boolean autoCommit) {
        List<Long> found = new ArrayList<>();
        for (Message each : poll(WALKER, strategy, count, autoCommit).messages()) {
            found.add(each.header().offset().longValue());
        }
        return found;
    }

    private void gettingStarted() {
        Steps.step("getting started: a producer in its own words", () -> {
            IggyTcpClient producer = loggedIn("iggy", "iggy");
            StreamId sample = StreamId.of("sample-stream");
            if (producer.streams().getStream(sample).isEmpty()) producer.streams().createStream("sample-stream");
            if (producer.topics().getTopic(sample, TopicId.of("sample-topic")).isEmpty()) {
                producer.topics()
                        .createTopic(
                                sample,
                                1L,
                                CompressionAlgorithm.None,
                                BigInteger.ZERO,
                                BigInteger.ZERO,
                                Optional.empty(),
                                "sample-topic");
            }
            for (int batch = 0; batch < 5; batch++) {
                producer.messages()
                        .sendMessages(
                                sample,
                                TopicId.of("sample-topic"),
                                Partitioning.partitionId(0L),
                                numbered("message-" + batch + "-", MESSAGES));
            }
        });
        Steps.step("getting started: a consumer in its own words", () -> {
            IggyTcpClient consumer = loggedIn("iggy", "iggy");
            StreamId sample = StreamId.of("sample-stream");
            BigInteger offset = BigInteger.ZERO;
            List<String> found = new ArrayList<>();
            for (int batch = 0; batch < 5; batch++) {
                PolledMessages polled = consumer.messages()
                        .pollMessages(
                                sample,
                                TopicId.of("sample-topic"),
                                Optional.of(0L),
                                Consumer.of(0L),
                                PollingStrategy.offset(offset),
                                (long) MESSAGES,
                                false);
                for (Message each : polled.messages()) found.add(text(each));
                offset = offset.add(BigInteger.valueOf(polled.messages().size()));
            }
            Steps.expect(found.size(), 5 * MESSAGES);
            Steps.expect(found.get(11), "message-1-1");
            consumer.streams().deleteStream(sample);
        });
    }

    private void sessions() {
        Steps.step("connects", () -> client = connected());
        Steps.step("is refused with a wrong password", () ->
                Steps.refused(() -> connected().users().login("iggy", "wrong password")));
        Steps.step("logs in", () -> Steps.expect(client.users().login("iggy", "iggy").userId(), 0L));
        Steps.step("logs in after it has asked for something", () -> {
            IggyTcpClient other = connected();
            try {
                other.streams().getStreams();
            } catch (RuntimeException refused) {
                // Newer versions refuse it themselves.
            }
            other.users().login("iggy", "iggy");
            other.streams().getStreams();
        });
        Steps.step("pings", () -> client.system().ping());
        Steps.step("shows statistics", () -> {
            var found = client.system().getStats();
            Steps.holds(!found.hostname().isEmpty() && found.processId() > 0, found);
        });
        Steps.step("shows itself, one client and all clients", () -> {
            var me = client.system().getMe();
            Steps.expect(client.system().getClient(me.clientId()).address(), me.address());
            Set<Long> ids = new HashSet<>();
            client.system().getClients().forEach(each -> ids.add(each.clientId()));
            Steps.holds(ids.contains(me.clientId()), ids);
        });
    }

    private void streamsAndTopics() {
        Steps.step("finds no stream before it is made", () ->
                Steps.expect(client.streams().getStream(stream), Optional.empty()));
        Steps.step("makes a stream", () -> Steps.expect(client.streams().createStream("walk").name(), "walk"));
        Steps.step("is refused a second stream of the name", () ->
                Steps.refused(() -> client.streams().createStream("walk")));
        Steps.step("finds the stream by name and number", () -> {
            var found = client.streams().getStream(stream).orElseThrow();
            Steps.expect(List.of(found.name(), found.topicsCount(), found.messagesCount()),
                    List.of("walk", 0L, BigInteger.ZERO));
            Steps.expect(client.streams().getStream(found.id()).orElseThrow().name(), "walk");
        });
        Steps.step("makes a topic", () -> client.topics()
                .createTopic(stream, 2L, CompressionAlgorithm.None, BigInteger.ZERO, BigInteger.ZERO, Optional.empty(), "steps"));
        Steps.step("makes a topic with options", () -> {
            TopicDetails found = client.topics()
                    .createTopic(stream, 1L, CompressionAlgorithm.Gzip, DAY_US, SIZE, Optional.of((short) 1), "optional");
            Steps.expect(List.of(found.compressionAlgorithm(), found.messageExpiry(), found.maxTopicSize(),
                            found.replicationFactor()),
                    List.of(CompressionAlgorithm.Gzip, DAY_US, SIZE, (short) 1));
        });
        Steps.step("finds the topic by name and number", () -> {
            TopicDetails found = client.topics().getTopic(stream, TOPIC).orElseThrow();
            Steps.expect(List.of(found.name(), found.partitionsCount(), found.partitions().size()),
                    List.of("steps", 2L, 2));
            var again = client.topics().getTopic(stream, TopicId.of(found.id())).orElseThrow();
            Steps.expect(again.name(), "steps");
        });
        Steps.step("finds no topic that is not there", () ->
                Steps.expect(client.topics().getTopic(stream, TopicId.of("nowhere")), Optional.empty()));
        Steps.step("lists streams and topics", () -> {
            Steps.expect(client.streams().getStreams().get(0).name(), "walk");
            Set<String> names = new HashSet<>();
            client.topics().getTopics(stream).forEach(each -> names.add(each.name()));
            Steps.expect(names, Set.of("steps", "optional"));
        });
    }

    private void messages() {
        Steps.step("sends messages", () ->
                client.messages().sendMessages(stream, TOPIC, Partitioning.partitionId(0L), numbered("message ", MESSAGES)));
        Steps.step("sends by key and balanced", () -> {
            for (Partitioning each : List.of(Partitioning.messagesKey("a key"), Partitioning.balanced())) {
                client.messages().sendMessages(stream, OPTIONAL, each, numbered("k", 1));
            }
            Steps.expect(client.topics().getTopic(stream, OPTIONAL).orElseThrow().messagesCount(), BigInteger.TWO);
        });
        Steps.step("polls from the first", () -> {
            PolledMessages found = poll(WALKER, PollingStrategy.first(), 100, false);
            Steps.expect(List.of(found.partitionId(), found.currentOffset(), found.count()),
                    List.of(0L, BigInteger.valueOf(9), 10L));
            for (int at = 0; at < MESSAGES; at++) Steps.expect(text(found.messages().get(at)), "message " + at);
        });
        Steps.step("reads ids times and checksums", () -> {
            Set<BigInteger> ids = new HashSet<>();
            BigInteger now = BigInteger.valueOf(System.currentTimeMillis() * 1000);
            for (Message each : poll(WALKER, PollingStrategy.first(), 100, false).messages()) {
                ids.add(each.header().id().toBigInteger());
                BigInteger age = now.subtract(each.header().timestamp());
                Steps.holds(age.abs().compareTo(DAY_US) < 0, age);
                Steps.holds(each.header().checksum().signum() != 0, "no checksum");
            }
            Steps.expect(ids.size(), MESSAGES);
            Steps.holds(!ids.contains(BigInteger.ZERO), ids);
        });
        Steps.step("polls from an offset", () -> Steps.expect(
                offsets(PollingStrategy.offset(BigInteger.valueOf(7)), 2, false), List.of(7L, 8L)));
        Steps.step("polls the last", () -> Steps.expect(offsets(PollingStrategy.last(), 3, false), List.of(7L, 8L, 9L)));
        Steps.step("polls from a time", () -> {
            Steps.expect(offsets(PollingStrategy.timestamp(BigInteger.ONE), 100, false).size(), MESSAGES);
            BigInteger later = BigInteger.valueOf(System.currentTimeMillis() * 1000).add(DAY_US);
            Steps.expect(offsets(PollingStrategy.timestamp(later), 100, false), List.of());
        });
        Steps.step("polls the next and stores how far", () -> {
            for (List<Long> wanted : List.of(List.of(0L, 1L, 2L, 3L), List.of(4L, 5L, 6L, 7L), List.of(8L, 9L), List.<Long>of())) {
                Steps.expect(offsets(PollingStrategy.next(), 4, true), wanted);
            }
        });
        Steps.step("polls nothing behind the end", () -> Steps.expect(
                offsets(PollingStrategy.offset(BigInteger.valueOf(1000)), 10, false), List.of()));
        Steps.step("sends and reads headers and ids", () -> {
            Map<HeaderKey, HeaderValue> headers = new HashMap<>();
            headers.put(HeaderKey.fromString("text"), HeaderValue.fromString("a value"));
            headers.put(HeaderKey.fromString("number"), HeaderValue.fromInt32(7));
            headers.put(HeaderKey.fromString("raw"), HeaderValue.fromRaw(new byte[] {0, -1}));
            headers.put(HeaderKey.fromString("yes"), HeaderValue.fromBool(true));
            client.messages().sendMessages(stream, OPTIONAL, Partitioning.partitionId(0L),
                    List.of(Message.of("with headers", headers)));
            Message found = client.messages()
                    .pollMessages(stream, OPTIONAL, Optional.of(0L), WALKER, PollingStrategy.last(), 1L, false)
                    .messages().get(0);
            Steps.expect(text(found), "with headers");
            Steps.expect(found.userHeaders().size(), 4);
            Steps.expect(found.userHeaders().get(HeaderKey.fromString("number")).asInt32(), 7);
        });
    }

    private void offsets() {
        Optional<Long> first = Optional.of(0L);
        Steps.step("stores and shows offsets", () -> {
            Consumer other = Consumer.of(77L);
            Steps.expect(client.consumerOffsets().getConsumerOffset(stream, TOPIC, first, other), Optional.empty());
            client.consumerOffsets().storeConsumerOffset(stream, TOPIC, first, other, BigInteger.valueOf(4));
            var found = client.consumerOffsets().getConsumerOffset(stream, TOPIC, first, other).orElseThrow();
            Steps.expect(List.of(found.partitionId(), found.currentOffset(), found.storedOffset()),
                    List.of(0L, BigInteger.valueOf(9), BigInteger.valueOf(4)));
            Steps.expect(poll(other, PollingStrategy.next(), 1, false).messages().get(0).header().offset(), BigInteger.valueOf(5));
        });
        Steps.step("is refused an offset behind the end", () -> Steps.refused(() -> client.consumerOffsets()
                .storeConsumerOffset(stream, TOPIC, first, WALKER, BigInteger.valueOf(1000))));
    }

    private void groups() {
        ConsumerId workers = ConsumerId.of("workers");
        Steps.step("makes joins and leaves a group", () -> {
            ConsumerGroupDetails made = client.consumerGroups().createConsumerGroup(stream, TOPIC, "workers");
            Steps.expect(List.of(made.name(), made.partitionsCount(), made.membersCount()), List.of("workers", 2L, 0L));
            Steps.expect(client.consumerGroups().getConsumerGroups(stream, TOPIC).size(), 1);
            client.consumerGroups().joinConsumerGroup(stream, TOPIC, workers);
            ConsumerGroupDetails joined = client.consumerGroups().getConsumerGroup(stream, TOPIC, workers).orElseThrow();
            Steps.expect(List.of(joined.membersCount(), joined.members().get(0).partitions()), List.of(1L, List.of(0L, 1L)));
            Steps.expect(client.system().getMe().consumerGroups().size(), 1);
        });
        Steps.step("reads as a member of a group", () -> {
            int found = 0;
            for (int turn = 0; turn < 2; turn++) {
                PolledMessages polled = client.messages().pollMessages(
                        stream, TOPIC, Optional.empty(), Consumer.group(workers), PollingStrategy.next(), 100L, true);
                found += polled.messages().size();
            }
            Steps.expect(found, MESSAGES);
            client.consumerGroups().leaveConsumerGroup(stream, TOPIC, workers);
            Steps.refused(() -> client.messages().pollMessages(
                    stream, TOPIC, Optional.empty(), Consumer.group(workers), PollingStrategy.next(), 100L, true));
            client.consumerGroups().deleteConsumerGroup(stream, TOPIC, workers);
            Steps.expect(client.consumerGroups().getConsumerGroup(stream, TOPIC, workers), Optional.empty());
        });
        Steps.step("shares a topic among the members of a group", () -> {
            client.consumerGroups().createConsumerGroup(stream, TOPIC, "shared");
            ConsumerId shared = ConsumerId.of("shared");
            IggyTcpClient other = loggedIn("iggy", "iggy");
            client.consumerGroups().joinConsumerGroup(stream, TOPIC, shared);
            other.consumerGroups().joinConsumerGroup(stream, TOPIC, shared);
            ConsumerGroupDetails found = other.consumerGroups().getConsumerGroup(stream, TOPIC, shared).orElseThrow();
            Steps.expect(found.membersCount(), 2L);
            client.consumerGroups().leaveConsumerGroup(stream, TOPIC, shared);
            other.consumerGroups().leaveConsumerGroup(stream, TOPIC, shared);
            client.consumerGroups().deleteConsumerGroup(stream, TOPIC, shared);
        });
    }

    private static GlobalPermissions readStreams(boolean streams) {
        return new GlobalPermissions(false, false, false, false, false, streams, false, false, false, false);
    }

    private void users() {
        Steps.step("manages users", () -> {
            UserInfoDetails made = client.users()
                    .createUser("reader", "secret password", UserStatus.Active, Optional.empty());
            Set<String> names = new HashSet<>();
            client.users().getUsers().forEach(each -> names.add(each.username()));
            Steps.expect(names, Set.of("iggy", "reader"));
            IggyTcpClient other = loggedIn("reader", "secret password");
            Steps.refused(() -> other.streams().createStream("forbidden"));
            client.users().changePassword(UserId.of("reader"), "secret password", "another password");
            Steps.refused(() -> loggedIn("reader", "secret password"));
            client.users().updateUser(made.id(), Optional.of("writer"), Optional.of(UserStatus.Inactive));
            var found = client.users().getUser(UserId.of("writer")).orElseThrow();
            Steps.expect(List.of(found.id(), found.status()), List.of(made.id(), UserStatus.Inactive));
            Steps.refused(() -> loggedIn("writer", "another password"));
            client.users().deleteUser(UserId.of("writer"));
            Steps.expect(client.users().getUser(UserId.of("writer")), Optional.empty());
        });
        Steps.step("gives and takes permissions", () -> {
            long number = client.streams().getStream(stream).orElseThrow().id();
            long topic = client.topics().getTopic(stream, TOPIC).orElseThrow().id();
            var topics = Map.of(topic, new TopicPermissions(false, true, true, false));
            var streams = Map.of(number, new StreamPermissions(false, true, false, true, false, false, topics));
            Permissions given = new Permissions(readStreams(true), streams);
            client.users().createUser("limited", "secret password", UserStatus.Active, Optional.of(given));
            var found = client.users().getUser(UserId.of("limited")).orElseThrow().permissions().orElseThrow();
            Steps.expect(found, given);
            IggyTcpClient limited = loggedIn("limited", "secret password");
            Steps.expect(limited.streams().getStream(stream).orElseThrow().name(), "walk");
            limited.messages().pollMessages(
                    stream, TOPIC, Optional.of(0L), WALKER, PollingStrategy.first(), 1L, false);
            Steps.refused(() -> limited.messages().sendMessages(
                    stream, TOPIC, Partitioning.partitionId(0L), numbered("forbidden", 1)));
            client.users().updatePermissions(UserId.of("limited"), Optional.empty());
            Steps.refused(() -> limited.messages().pollMessages(
                    stream, TOPIC, Optional.of(0L), WALKER, PollingStrategy.first(), 1L, false));
            client.users().deleteUser(UserId.of("limited"));
        });
    }

    private void tokens() {
        Steps.step("makes shows and deletes access tokens and logs in by one", () -> {
            var tokens = client.personalAccessTokens();
            String token = tokens.createPersonalAccessToken("walker", DAY_US).token();
            Steps.expect(tokens.getPersonalAccessTokens().get(0).name(), "walker");
            Steps.holds(tokens.getPersonalAccessTokens().get(0).expiryAt().isPresent(), "no expiry");
            IggyTcpClient other = connected();
            Steps.expect(other.personalAccessTokens().loginWithPersonalAccessToken(token).userId(), 0L);
            Steps.expect(other.streams().getStreams().isEmpty(), false);
            tokens.deletePersonalAccessToken("walker");
            Steps.expect(tokens.getPersonalAccessTokens().size(), 0);
            Steps.refused(() -> connected().personalAccessTokens().loginWithPersonalAccessToken(token));
        });
    }

    private void changes() {
        Steps.step("lists renames and changes", () -> {
            client.streams().updateStream(stream, "walked");
            stream = StreamId.of("walked");
            Steps.holds(client.streams().getStream(stream).isPresent(), "not renamed");
            client.topics().updateTopic(
                    stream, OPTIONAL, CompressionAlgorithm.None, BigInteger.ZERO, BigInteger.ZERO, Optional.of((short) 1), "renamed");
            Steps.expect(client.topics().getTopic(stream, TopicId.of("renamed")).orElseThrow().compressionAlgorithm(),
                    CompressionAlgorithm.None);
        });
        Steps.step("adds and removes partitions", () -> {
            client.partitions().createPartitions(stream, TOPIC, 3L);
            Steps.expect(client.topics().getTopic(stream, TOPIC).orElseThrow().partitionsCount(), 5L);
            client.partitions().deletePartitions(stream, TOPIC, 2L);
            Steps.expect(client.topics().getTopic(stream, TOPIC).orElseThrow().partitionsCount(), 3L);
        });
    }

    private void end() {
        Steps.step("deletes topics and streams", () -> {
            client.topics().deleteTopic(stream, TOPIC);
            Steps.expect(client.topics().getTopic(stream, TOPIC), Optional.empty());
            client.streams().deleteStream(stream);
            Steps.expect(client.streams().getStream(stream), Optional.empty());
        });
        Steps.step("logs out", () -> {
            client.users().logout();
            Steps.refused(() -> client.streams().getStreams());
        });
    }
}
