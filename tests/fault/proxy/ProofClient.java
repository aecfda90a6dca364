import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's own producer as a client of the proof: see producer.py, which says what the lines mean.
 *
 * <p>Arguments: servers, topic, partitions, name, seed, rate per second, codec, longest delay in ms (0: one hour),
 * file whose appearance ends it, "idempotent" or "transactional".
 */
public final class ProofClient {
    private static final int[] DELAYED_PERMILLE = {20, 100, 0, 500, 1000, 0};
    private static final long PHASE_MS = 2000;
    private static final long TICK_MS = 50;
    private static final long HOUR_MS = 3_600_000;

    private final String topic;
    private final int partitions;
    private final String name;
    private final Random random;
    private final int rate;
    private final long delayMaxMs;
    private final Path stop;
    private final Properties settings = new Properties();
    private final StringBuilder lines = new StringBuilder();
    private final long started = System.nanoTime();
    private KafkaProducer<byte[], byte[]> producer;
    private long count;

    private ProofClient(String[] args) {
        topic = args[1];
        partitions = Integer.parseInt(args[2]);
        name = args[3];
        random = new Random(Long.parseLong(args[4]));
        rate = Integer.parseInt(args[5]);
        delayMaxMs = Long.parseLong(args[7]);
        stop = Path.of(args[8]);
        settings.put("bootstrap.servers", args[0]);
        settings.put("compression.type", args[6]);
        settings.put("linger.ms", System.getProperty("linger.ms"));
        settings.put("batch.size", System.getProperty("batch.size"));
        settings.put("reconnect.backoff.max.ms", "200");
        if (args[9].equals("transactional")) {
            settings.put("transactional.id", name);
            settings.put("transaction.timeout.ms", "10000");
        }
    }

    public static void main(String[] args) throws Exception {
        ProofClient client = new ProofClient(args);
        if (args[9].equals("transactional")) {
            client.transact();
        } else {
            client.stream();
        }
        System.out.println("e");
    }

    private void stream() throws Exception {
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        while (!Files.exists(stop)) {
            for (long left = rate * TICK_MS / 1000; left > 0; left--) {
                long number = count;
                producer.send(next(), (metadata, error) -> say(error == null ? "a " + number : failed(number, error)));
            }
            flushLines();
            Thread.sleep(TICK_MS);
        }
        producer.close();
        flushLines();
    }

    private static String failed(long number, Exception error) {
        return "f " + number + " " + error.toString().replace('\n', ' ');
    }

    /** Transactions of up to a fifth of a second's records; every fourth is aborted. */
    private void transact() throws Exception {
        while (!Files.exists(stop)) {
            List<Long> group = new ArrayList<>();
            try {
                transactOnce(group);
            } catch (KafkaException error) {
                say("# " + error.toString().replace('\n', ' '));
                giveUp();
            }
            flushLines();
        }
        giveUp();
    }

    private void transactOnce(List<Long> group) throws Exception {
        if (producer == null) {
            producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
            producer.initTransactions();
        }
        producer.beginTransaction();
        for (long left = 1 + random.nextInt(Math.max(1, rate / 5)); left > 0; left--) {
            group.add(count);
            producer.send(next());
        }
        flushLines();
        Thread.sleep(random.nextInt(2 * (int) TICK_MS));
        if (random.nextInt(4) == 0) {
            producer.abortTransaction();
            group.forEach(number -> say("x " + number));
        } else {
            producer.commitTransaction();
            group.forEach(number -> say("a " + number));
        }
    }

    /** What it left open is ended by the next one of its name; its records' fate stays unknown. */
    private void giveUp() {
        if (producer != null) {
            producer.close(java.time.Duration.ofSeconds(5));
            producer = null;
        }
    }

    private ProducerRecord<byte[], byte[]> next() {
        long number = count++;
        int partition = random.nextInt(partitions);
        long phase = (System.nanoTime() - started) / 1_000_000 / PHASE_MS;
        boolean delayed = random.nextInt(1000) < DELAYED_PERMILLE[(int) (phase % DELAYED_PERMILLE.length)];
        long delayMs = delayed ? (delayMaxMs == 0 ? HOUR_MS : 1 + random.nextInt((int) delayMaxMs)) : -1;
        say("s " + number + " " + partition + " " + delayMs);
        byte[] value = (name + "-" + number).getBytes(StandardCharsets.UTF_8);
        ProducerRecord<byte[], byte[]> made = new ProducerRecord<>(topic, partition, null, value);
        if (delayed) {
            made.headers().add("delay-ms", Long.toString(delayMs).getBytes(StandardCharsets.UTF_8));
        }
        return made;
    }

    private void say(String line) {
        synchronized (lines) {
            lines.append(line).append('\n');
        }
    }

    private void flushLines() {
        synchronized (lines) {
            System.out.print(lines);
            System.out.flush();
            lines.setLength(0);
        }
    }
}
