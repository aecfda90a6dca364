import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DeleteRecordsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's own consumers and Admin, one call after the other; each prints what it found as a line.
 *
 * <p>{@code consume servers classic|consumer group topics count}, where topics is a name, {@code ~} and a regular
 * expression that the client matches, or {@code ^} and one that the broker matches; {@code admin servers topic hidden}.
 */
public final class Clients {
    private static final long PATIENCE_MS = 30_000;

    public static void main(String[] args) throws Exception {
        if (args[0].equals("consume")) {
            consume(args[1], args[2], args[3], args[4], Integer.parseInt(args[5]));
        } else {
            administer(args[1], args[2], args[3]);
        }
    }

    private static void consume(String servers, String protocol, String group, String topics, int count) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.protocol", protocol);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            subscribe(consumer, topics);
            Set<String> owned = new TreeSet<>();
            long until = System.nanoTime() + PATIENCE_MS * 1_000_000;
            for (int found = 0; found < count && System.nanoTime() < until; ) {
                for (ConsumerRecord<byte[], byte[]> one : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("record " + one.topic() + " " + new String(one.value(), StandardCharsets.UTF_8));
                    found++;
                }
                consumer.assignment().forEach(partition -> owned.add(partition.topic()));
            }
            consumer.commitSync();
            System.out.println("owned " + String.join(" ", owned));
        }
    }

    private static void subscribe(KafkaConsumer<byte[], byte[]> consumer, String topics) {
        if (topics.startsWith("^")) {
            consumer.subscribe(new SubscriptionPattern(topics.substring(1)));
        } else if (topics.startsWith("~")) {
            consumer.subscribe(Pattern.compile(topics.substring(1)));
        } else {
            consumer.subscribe(List.of(topics));
        }
    }

    private static void administer(String servers, String topic, String hidden) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", servers))) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            for (Node node : admin.describeCluster().nodes().get()) {
                System.out.println("node " + node.id() + " " + node.host() + ":" + node.port());
            }
            System.out.println("partitions " + partitions(admin, topic));
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            String policy = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("cleanup.policy").value();
            System.out.println("cleanup.policy " + policy);
            TopicPartition first = new TopicPartition(topic, 0);
            System.out.println("end " + admin.listOffsets(Map.of(first, OffsetSpec.latest())).all().get().get(first).offset());
            admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(0))).all().get();
            System.out.println("listed " + admin.listTopics().names().get().contains(topic));
            System.out.println("listed hidden " + admin.listTopics().names().get().contains(hidden));
            refusals(admin, hidden);
            admin.deleteTopics(TopicCollection.ofTopicNames(List.of(topic))).all().get();
            System.out.println("done");
        }
    }

    /** One partition per answer: DescribeTopicPartitions goes on where it broke off. */
    private static int partitions(Admin admin, String topic) throws Exception {
        DescribeTopicsOptions options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(1);
        List<String> names = new ArrayList<>(List.of(topic));
        TopicDescription found = admin.describeTopics(names, options).allTopicNames().get().get(topic);
        return found.partitions().size();
    }

    private static void refusals(Admin admin, String hidden) throws Exception {
        TopicPartition first = new TopicPartition(hidden, 0);
        refused("describe", () -> admin.describeTopics(List.of(hidden)).allTopicNames().get());
        // It asks for the leader again and again until the time is over, as for any topic that does not exist.
        Map<TopicPartition, RecordsToDelete> all = Map.of(first, RecordsToDelete.beforeOffset(-1));
        DeleteRecordsOptions briefly = new DeleteRecordsOptions().timeoutMs(2000);
        refused("delete records", () -> admin.deleteRecords(all, briefly).all().get());
        refused("delete", () -> admin.deleteTopics(List.of(hidden)).all().get());
        refused("widen", () -> admin.createPartitions(Map.of(hidden, NewPartitions.increaseTo(9))).all().get());
    }

    private interface Call {
        Object get() throws Exception;
    }

    private static void refused(String what, Call call) throws Exception {
        try {
            call.get();
            System.out.println(what + " was done");
        } catch (ExecutionException error) {
            System.out.println(what + " " + error.getCause().getClass().getSimpleName());
        }
    }
}
