import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/**
 * Kafka Streams with exactly_once_v2: what comes from one topic goes to another, every third record with a delay.
 * `pipe servers from to seconds`.
 */
public final class Streams {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "foreign-" + args[2]);
        settings.put("bootstrap.servers", args[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "100");
        settings.put("auto.offset.reset", "earliest");
        settings.put("state.dir", Files.createTempDirectory("foreign").toString());
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> from = builder.stream(args[2]);
        from.process(Delaying::new).to(args[3]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(
                error -> {
                    System.out.println("failed 0 " + error);
                    return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                            .StreamThreadExceptionResponse.REPLACE_THREAD;
                });
        streams.start();
        Thread.sleep(Long.parseLong(args[4]) * 1000);
        streams.close();
    }

    private static final class Delaying extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            if (Integer.parseInt(record.value()) % 3 == 0) {
                record.headers().add("delay", "1s".getBytes(StandardCharsets.UTF_8));
            }
            context().forward(record);
        }
    }
}
