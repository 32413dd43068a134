// The steps of the SDK's asynchronous client: what all its versions have.
import static org.apache.iggy.consumergroup.Consumer.group;

import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.iggy.Iggy;
import org.apache.iggy.client.async.tcp.AsyncIggyTcpClient;
import org.apache.iggy.client.blocking.tcp.IggyTcpClient;
import org.apache.iggy.consumergroup.Consumer;
import org.apache.iggy.identifier.ConsumerId;
import org.apache.iggy.identifier.StreamId;
import org.apache.iggy.identifier.TopicId;
import org.apache.iggy.message.Message;
import org.apache.iggy.message.Partitioning;
import org.apache.iggy.message.PolledMessages;
import org.apache.iggy.message.PollingStrategy;
import org.apache.iggy.topic.CompressionAlgorithm;

final class AsyncWalk {
    private static final StreamId STREAM = StreamId.of("async");
    private static final TopicId TOPIC = TopicId.of("steps");
    private static final int SENDS = 20;

    private final String host;
    private final int port;
    private final IggyTcpClient other;
    private AsyncIggyTcpClient client;

    /** other: makes the group, for which older versions have no asynchronous call. */
    AsyncWalk(String host, int port, IggyTcpClient other) {
        this.host = host;
        this.port = port;
        this.other = other;
    }

    private static <T> T of(CompletableFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    private AsyncIggyTcpClient loggedIn(int connections) throws Exception {
        AsyncIggyTcpClient made = Iggy.tcpClientBuilder()
                .async()
                .host(host)
                .port(port)
                .connectionPoolSize(connections)
                .build();
        of(made.connect());
        of(made.users().login("iggy", "iggy"));
        return made;
    }

    void run() {
        Steps.step("asynchronous client: connects and logs in", () -> {
            client = loggedIn(5);
        });
        Steps.step("asynchronous client: makes, finds and lists streams and topics", () -> {
            Steps.expect(of(client.streams().createStream("async")).name(), "async");
            of(client.topics().createTopic(
                    STREAM, 2L, CompressionAlgorithm.None, BigInteger.ZERO, BigInteger.ZERO, Optional.empty(), "steps"));
            Steps.expect(of(client.streams().getStream(STREAM)).orElseThrow().topicsCount(), 1L);
            Steps.expect(of(client.topics().getTopic(STREAM, TOPIC)).orElseThrow().partitionsCount(), 2L);
            Steps.expect(of(client.topics().getTopics(STREAM)).size(), 1);
            Steps.expect(of(client.streams().getStream(StreamId.of("nowhere"))), Optional.empty());
        });
        Steps.step("asynchronous client: sends many at once, polls all", () -> {
            List<CompletableFuture<Void>> sent = new ArrayList<>();
            for (int number = 0; number < SENDS; number++) {
                sent.add(client.messages().sendMessages(
                        STREAM, TOPIC, Partitioning.partitionId(0L), List.of(Message.of("message " + number))));
            }
            for (CompletableFuture<Void> each : sent) of(each);
            PolledMessages found = of(client.messages()
                    .pollMessages(STREAM, TOPIC, Optional.of(0L), Consumer.of(1L), PollingStrategy.first(), 100L, false));
            Steps.expect(found.messages().size(), SENDS);
        });
        Steps.step("asynchronous client: reads as a member of a group", () -> {
            other.consumerGroups().createConsumerGroup(STREAM, TOPIC, "asynchronous");
            ConsumerId name = ConsumerId.of("asynchronous");
            AsyncIggyTcpClient member = loggedIn(1);  // a member of a group is a connection
            of(member.consumerGroups().joinConsumerGroup(STREAM, TOPIC, name));
            int found = 0;
            for (int turn = 0; turn < 2; turn++) {
                found += of(member.messages()
                                .pollMessages(
                                        STREAM, TOPIC, Optional.empty(), group(name), PollingStrategy.first(), 100L, false))
                        .messages()
                        .size();
            }
            Steps.expect(found, SENDS);
            of(member.consumerGroups().leaveConsumerGroup(STREAM, TOPIC, name));
            of(member.close());
        });
        Steps.step("asynchronous client: deletes what it has made, and logs out", () -> {
            of(client.topics().deleteTopic(STREAM, TOPIC));
            of(client.streams().deleteStream(STREAM));
            of(client.users().logout());
            of(client.close());
        });
    }
}
