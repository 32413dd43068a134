// The calls of Java's admin client that are about groups. Prints a line for each: OK or FAIL, its name, and what was
// answered.
//
//     GroupCalls SERVERS TOPIC PROTOCOL
//
// TOPIC has records; PROTOCOL is that of the group's member: classic or consumer.
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class GroupCalls {
    static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    static Object expect(boolean holds, Object found) {
        if (!holds) throw new IllegalStateException("answered " + found);
        return found;
    }

    static Object refused(Class<? extends Exception> kind, Callable<Object> call) throws Exception {
        try {
            throw new IllegalStateException("answered " + call.call());
        } catch (java.util.concurrent.ExecutionException error) {
            return expect(kind.isInstance(error.getCause()), error.getCause());
        }
    }

    static void step(String name, Callable<Object> call) {
        try {
            System.out.println("OK " + name + " " + String.valueOf(call.call()).replace('\n', ' '));
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println("FAIL " + name + " " + cause);
        }
    }

    static ConsumerGroupDescription described(Admin admin, String group) throws Exception {
        return of(admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }

    public static void main(String[] arguments) {
        String topic = arguments[1];
        String protocol = arguments[2];
        String group = "group-calls-" + protocol;
        TopicPartition partition = new TopicPartition(topic, 0);
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("default.api.timeout.ms", 15000);
        settings.put("request.timeout.ms", 10000);
        Map<String, Object> member = new HashMap<>(settings);
        member.putAll(Map.of("group.id", group, "group.protocol", protocol, "enable.auto.commit", "false",
                "auto.offset.reset", "earliest"));
        try (Admin admin = Admin.create(settings);
                KafkaConsumer<byte[], byte[]> consumer =
                        new KafkaConsumer<>(member, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            step("a member reads", () -> {
                consumer.subscribe(List.of(topic));
                long end = System.currentTimeMillis() + 40000;
                int read = 0;
                while (read == 0 && System.currentTimeMillis() < end)
                    read = consumer.poll(Duration.ofMillis(200)).count();
                return expect(read > 0, read);
            });
            step("commits", () -> {
                Map<TopicPartition, OffsetAndMetadata> one = Map.of(partition, new OffsetAndMetadata(1, "a text"));
                consumer.commitSync(one);
                return expect(consumer.committed(Set.of(partition)).equals(one), one);
            });
            step("listGroups", () -> {
                Collection<GroupListing> found = of(admin.listGroups().all());
                return expect(found.stream().anyMatch(each -> each.groupId().equals(group)
                        && each.type().get().toString().equalsIgnoreCase(protocol)
                        && each.groupState().get().toString().equals("Stable")), found);
            });
            step("listConsumerGroups", () -> {
                var found = of(admin.listConsumerGroups().all());
                return expect(found.stream().anyMatch(each -> each.groupId().equals(group)), found);
            });
            step("describeConsumerGroups", () -> {
                ConsumerGroupDescription found = described(admin, group);
                return expect(found.members().size() == 1 && found.coordinator() != null
                        && found.members().iterator().next().assignment().topicPartitions().contains(partition), found);
            });
            if (protocol.equals("classic"))
                step("describeClassicGroups", () -> {
                    var found = of(admin.describeClassicGroups(List.of(group)).all()).get(group);
                    return expect(found.members().size() == 1, found);
                });
            step("listConsumerGroupOffsets", () -> {
                var found = of(admin.listConsumerGroupOffsets(
                        Map.of(group, new ListConsumerGroupOffsetsSpec())).all()).get(group);
                return expect(found.get(partition).offset() == 1, found);
            });
            Map<TopicPartition, OffsetAndMetadata> reset = Map.of(partition, new OffsetAndMetadata(0));
            step("alterConsumerGroupOffsets, with a member", () -> refused(Exception.class,
                    () -> of(admin.alterConsumerGroupOffsets(group, reset).all())));
            step("deleteConsumerGroupOffsets, of a topic that is read", () -> refused(
                    GroupSubscribedToTopicException.class,
                    () -> of(admin.deleteConsumerGroupOffsets(group, Set.of(partition)).partitionResult(partition))));
            step("deleteConsumerGroups, with a member", () -> refused(
                    GroupNotEmptyException.class, () -> of(admin.deleteConsumerGroups(List.of(group)).all())));
            if (protocol.equals("classic"))
                step("removeMembersFromConsumerGroup", () -> of(admin.removeMembersFromConsumerGroup(
                        group, new RemoveMembersFromConsumerGroupOptions()).all()));
            consumer.close();
            step("describeConsumerGroups, without members", () -> {
                ConsumerGroupDescription found = described(admin, group);
                return expect(found.members().isEmpty() && found.groupState().toString().equals("Empty"), found);
            });
            step("alterConsumerGroupOffsets", () -> {
                of(admin.alterConsumerGroupOffsets(group, reset).all());
                var found = of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                return expect(found.get(partition).offset() == 0, found);
            });
            step("deleteConsumerGroupOffsets", () -> {
                of(admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all());
                var found = of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
                return expect(found.get(partition) == null, found);
            });
            step("deleteConsumerGroups", () -> of(admin.deleteConsumerGroups(List.of(group)).all()));
            step("describeConsumerGroups, of none", () -> refused(
                    GroupIdNotFoundException.class, () -> described(admin, group)));
        }
    }
}
