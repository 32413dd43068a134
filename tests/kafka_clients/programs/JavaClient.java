// Java's own client.
import java.io.ByteArrayOutputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaClient {
    /** Record `number` of a producer: README.md says the rule. */
    static ProducerRecord<byte[], byte[]> record(String topic, String name, int number, String kind) {
        byte[] text = (name + "-" + number).getBytes();
        boolean hasKey = number % 3 != 2;
        byte[] key = hasKey ? text : null;
        byte[] value = {};
        if (number % 11 != 10) {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            all.writeBytes(text);
            all.write('-');
            for (int each = 0; each < 256; each++) all.write(each);
            value = all.toByteArray();
        }
        RecordHeaders headers = new RecordHeaders();
        if (!kind.equals("plain")) {
            if (hasKey && number % 10 == 9) key = new byte[0];
            if (hasKey && number % 7 == 6) value = null;
            headers.add("h", String.valueOf(number).getBytes());
            headers.add("h", new byte[] {(byte) 0xff, 0});
            if (kind.equals("all")) headers.add("null", null);
        }
        return new ProducerRecord<>(topic, 0, key, value, headers);
    }

    static void produce(String servers, String topic, String codec, int count, String name, String kind)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        settings.put("delivery.timeout.ms", "25000");
        settings.put("request.timeout.ms", "20000");
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> told = new ArrayList<>();
            for (int number = 0; number < count; number++)
                told.add(producer.send(record(topic, name, number, kind)));
            for (Future<RecordMetadata> each : told) offsets.add(each.get(25, TimeUnit.SECONDS).offset());
        }
        System.out.println(offsets);
    }

    static String hex(byte[] content) {
        return content == null ? "null" : "\"" + HexFormat.of().formatHex(content) + "\"";
    }

    static void consume(String servers, String topic, int count) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int taken = 0;
            long end = System.currentTimeMillis() + 20000;
            while (taken < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                    if (taken == count) break;
                    List<String> headers = new ArrayList<>();
                    for (Header header : record.headers())
                        headers.add("[\"" + header.key() + "\"," + hex(header.value()) + "]");
                    System.out.println(
                            "[" + record.offset() + "," + hex(record.key()) + "," + hex(record.value()) + ",["
                                    + String.join(",", headers) + "]]");
                    taken++;
                }
            }
            if (taken < count) {
                System.err.println("no more records after " + taken);
                System.exit(1);
            }
        }
    }

    static void share(String servers, String topic, String group, String instance, String protocol)
            throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            String range = "org.apache.kafka.clients.consumer.RangeAssignor";
            settings.put("partition.assignment.strategy", range);
            settings.put("session.timeout.ms", instance.isEmpty() ? "10000" : "30000");
            settings.put("heartbeat.interval.ms", "500");
        }
        if (!instance.isEmpty()) settings.put("group.instance.id", instance);
        AtomicBoolean stopped = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException error) {
                // The end of the input, too.
            }
            stopped.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            List<Integer> assigned = List.of();
            while (!stopped.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                List<Integer> now =
                        consumer.assignment().stream().map(TopicPartition::partition).sorted().toList();
                if (!now.equals(assigned)) {
                    assigned = now;
                    System.out.println("[\"assigned\"," + assigned + "]");
                }
                for (ConsumerRecord<byte[], byte[]> record : records)
                    System.out.println("[\"record\"," + record.partition() + "," + record.offset() + "]");
                if (records.isEmpty()) continue;
                try {
                    Map<TopicPartition, OffsetAndMetadata> read = records.nextOffsets();
                    consumer.commitSync(read);
                    List<String> committed = new ArrayList<>();
                    read.forEach((partition, next) ->
                            committed.add("[" + partition.partition() + "," + next.offset() + "]"));
                    System.out.println("[\"committed\",[" + String.join(",", committed) + "]]");
                } catch (CommitFailedException | RebalanceInProgressException error) {
                    // The group gathers its members.
                }
            }
        }
    }

    static void introduce(String servers, String topic, String group, int count) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            int taken = 0;
            while (taken < count) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println("[" + record.partition() + "," + record.offset() + "]");
                    taken++;
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("produce"))
            produce(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]), arguments[5],
                    arguments[6]);
        else if (arguments[0].equals("share"))
            share(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
        else if (arguments[0].equals("introduce"))
            introduce(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]));
        else consume(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
    }
}
