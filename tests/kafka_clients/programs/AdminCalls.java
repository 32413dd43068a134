// The calls of Java's admin client that a user interface for Kafka makes: those of kafbat's kafka-ui, by its class
// io.kafbat.ui.service.ReactiveAdminClient, with the options that it gives. Neither that program nor AKHQ is among
// Maven Central's artefacts. Prints a line for each: OK or FAIL, its name, and what was answered.
//
//     AdminCalls SERVERS
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.StringSerializer;

public class AdminCalls {
    static final String TOPIC = "admin-calls-" + System.currentTimeMillis();

    static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    static void expect(boolean holds, Object found) {
        if (!holds) throw new IllegalStateException("answered " + found);
    }

    static void step(String name, Callable<Object> call) {
        try {
            System.out.println("OK " + name + " " + String.valueOf(call.call()).replace('\n', ' '));
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println("FAIL " + name + " " + cause);
        }
    }

    public static void main(String[] arguments) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("default.api.timeout.ms", 15000);
        settings.put("request.timeout.ms", 10000);
        try (Admin admin = Admin.create(settings)) {
            run(admin, settings);
        }
    }

    static void run(Admin admin, Map<String, Object> settings) {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
        TopicPartition partition = new TopicPartition(TOPIC, 0);
        List<Integer> brokers = new ArrayList<>();
        step("describeCluster", () -> {
            DescribeClusterResult result =
                    admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            of(result.nodes()).forEach(node -> brokers.add(node.id()));
            expect(brokers.contains(of(result.controller()).id()), brokers);
            return of(result.clusterId()) + " " + brokers + " " + of(result.authorizedOperations());
        });
        step("createTopics", () -> of(admin.createTopics(
                List.of(new NewTopic(TOPIC, Optional.of(2), Optional.empty()).configs(Map.of("retention.ms", "3600000")))).all()));
        step("produce", () -> {
            try (KafkaProducer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
                long offset = -1;
                for (int i = 0; i < 10; i++)
                    offset = producer.send(new ProducerRecord<>(TOPIC, 0, "k", "v" + i)).get(20, TimeUnit.SECONDS).offset();
                expect(offset == 9, offset);
                return offset;
            }
        });
        step("describeConfigs of brokers", () -> {
            List<ConfigResource> all = brokers.stream()
                    .map(id -> new ConfigResource(ConfigResource.Type.BROKER, id.toString())).toList();
            Map<String, String> names = new LinkedHashMap<>();
            of(admin.describeConfigs(all).all()).values()
                    .forEach(config -> config.entries().forEach(entry -> names.put(entry.name(), entry.value())));
            expect(!names.isEmpty(), names);
            return names.keySet();
        });
        step("describeFeatures", () -> of(admin.describeFeatures().featureMetadata()));
        step("listTopics", () -> {
            Set<String> names = of(admin.listTopics(new ListTopicsOptions().listInternal(true)).names());
            expect(names.contains(TOPIC), names);
            return names.size();
        });
        step("describeTopics", () -> {
            TopicDescription found = of(admin.describeTopics(List.of(TOPIC)).topicNameValues().get(TOPIC));
            expect(found.partitions().size() == 2 && found.partitions().get(0).leader() != null, found);
            return found;
        });
        step("describeConfigs of topics", () -> {
            var options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
            ConfigEntry found = of(admin.describeConfigs(List.of(topic), options).values().get(topic)).get("retention.ms");
            expect(found.value().equals("3600000") && !found.isDefault(), found);
            return found;
        });
        step("incrementalAlterConfigs", () -> of(admin.incrementalAlterConfigs(Map.of(topic, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("max.message.bytes", ""), AlterConfigOp.OpType.DELETE)))).all()));
        step("describeLogDirs", () -> {
            long bytes = of(admin.describeLogDirs(brokers).allDescriptions()).values().stream()
                    .flatMap(folders -> folders.values().stream())
                    .flatMap(folder -> folder.replicaInfos().entrySet().stream())
                    .filter(each -> each.getKey().equals(partition)).mapToLong(each -> each.getValue().size()).sum();
            expect(bytes > 0, bytes);
            return bytes;
        });
        for (OffsetSpec spec : List.of(
                OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(1))) {
            long wanted = spec instanceof OffsetSpec.LatestSpec ? 10 : spec instanceof OffsetSpec.MaxTimestampSpec ? -1 : 0;
            step("listOffsets " + spec.getClass().getSimpleName(), () -> {
                long found = of(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition)).offset();
                expect(wanted == -1 ? found >= 0 : found == wanted, found);
                return found;
            });
        }
        step("describeProducers", () -> {
            var found = of(admin.describeProducers(List.of(partition)).partitionResult(partition)).activeProducers();
            expect(found.size() == 1 && found.get(0).lastSequence() == 9, found);
            return found;
        });
        step("describeAcls", () -> of(admin.describeAcls(AclBindingFilter.ANY).values()));
        step("describeClientQuotas", () -> of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()));
        step("listPartitionReassignments", () -> of(admin.listPartitionReassignments().reassignments()));
        step("listConsumerGroups", () -> of(admin.listConsumerGroups().all()));
        step("listTransactions", () -> of(admin.listTransactions().all()));
        step("createPartitions", () -> of(admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all()));
        step("deleteRecords", () -> {
            long low = of(admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(partition))
                    .lowWatermark();
            expect(low == 4, low);
            return low;
        });
        step("deleteTopics", () -> of(admin.deleteTopics(List.of(TOPIC)).all()));
    }
}
