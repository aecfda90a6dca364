import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's own client from 0.11 on, in one source: see ../programs.py for what a program is asked. */
public final class Foreign {
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "produce": produce(args[1], args[2], Integer.parseInt(args[3])); break;
            case "consume": consume(args[1], args[2], Integer.parseInt(args[3])); break;
            default: refused(args[1], args[2]);
        }
    }

    private static KafkaProducer<String, String> producer(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("max.in.flight.requests.per.connection", System.getProperty("in.flight", "5"));
        settings.put("linger.ms", "2");
        settings.put("batch.size", "1000");
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static ProducerRecord<String, String> record(String topic, String value, String delay) {
        ProducerRecord<String, String> one = new ProducerRecord<>(topic, value, value);
        if (!delay.isEmpty()) {
            one.headers().add("delay", delay.getBytes(StandardCharsets.UTF_8));
        }
        return one;
    }

    private static void produce(String servers, String topic, int count) throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(servers)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < count; n++) {
                sent.add(producer.send(record(topic, Integer.toString(n), n % 3 == 0 ? "1s" : "")));
            }
            for (int n = 0; n < count; n++) {
                print(n, sent.get(n));
            }
        }
    }

    private static void print(int n, Future<RecordMetadata> sent) throws InterruptedException {
        try {
            System.out.println("acked " + n + " " + sent.get().offset());
        } catch (ExecutionException error) {
            System.out.println("failed " + n + " " + error.getCause().getMessage().replace('\n', ' '));
        }
    }

    private static void refused(String servers, String topic) throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(servers)) {
            print(0, producer.send(record(topic, "0", "soon")));
            print(1, producer.send(record(topic, "1", "1s")));
        }
    }

    private static void consume(String servers, String topic, int count) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", "foreign-" + System.nanoTime());
        settings.put("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (PartitionInfo one : consumer.partitionsFor(topic)) {
                all.add(new TopicPartition(topic, one.partition()));
            }
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Set<String> values = new HashSet<>();
            for (long last = System.currentTimeMillis();
                    values.size() < count && System.currentTimeMillis() - last < PATIENCE_MS; ) {
                for (ConsumerRecord<String, String> one : poll(consumer)) {
                    System.out.println("read " + one.partition() + " " + one.offset() + " " + one.value());
                    values.add(one.value());
                    last = System.currentTimeMillis();
                }
            }
        }
    }

    /** poll(long) went in 4.0, poll(Duration) came in 2.0. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) throws Exception {
        try {
            return (ConsumerRecords<String, String>)
                    KafkaConsumer.class.getMethod("poll", Duration.class).invoke(consumer, Duration.ofMillis(200));
        } catch (NoSuchMethodException old) {
            return (ConsumerRecords<String, String>)
                    KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 200L);
        }
    }
}
