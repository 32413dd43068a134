// Java's own client.
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaClient {
    static void produce(String servers, String topic, String codec, int count, String name) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("compression.type", codec);
        settings.put("linger.ms", "20");
        settings.put("delivery.timeout.ms", "25000");
        settings.put("request.timeout.ms", "20000");
        List<Long> offsets = new ArrayList<>();
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> told = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                String key = number % 3 == 2 ? null : name + "-" + number;
                String value = number % 7 == 6 && number % 3 != 2 ? null : name + "-" + number + "-" + "x".repeat(100);
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, 0, key, value);
                record.headers().add("h", String.valueOf(number).getBytes());
                told.add(producer.send(record));
            }
            for (Future<RecordMetadata> each : told) offsets.add(each.get(25, TimeUnit.SECONDS).offset());
        }
        System.out.println(offsets);
    }

    static String quoted(String text) {
        return text == null ? "null" : "\"" + text + "\"";
    }

    static void consume(String servers, String topic, int count) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            int taken = 0;
            long end = System.currentTimeMillis() + 20000;
            while (taken < count && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    if (taken == count) break;
                    List<String> headers = new ArrayList<>();
                    for (Header header : record.headers())
                        headers.add("[" + quoted(header.key()) + "," + quoted(new String(header.value())) + "]");
                    System.out.println(
                            "[" + record.offset() + "," + quoted(record.key()) + "," + quoted(record.value()) + ",["
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

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("produce"))
            produce(arguments[1], arguments[2], arguments[3], Integer.parseInt(arguments[4]), arguments[5]);
        else consume(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
    }
}
