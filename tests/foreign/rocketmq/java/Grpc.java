import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.shaded.io.grpc.Status;
import org.apache.rocketmq.shaded.io.grpc.StatusRuntimeException;

/** RocketMQ's client of version 5 over gRPC; see programs.py. */
public class Grpc {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "produce" -> produce(words[1], words[2], Integer.parseInt(words[3]));
            case "refused" -> refused(words[1], words[2]);
            case "recall" -> recall(words[1], words[2]);
            case "simple" -> simple(words[1], words[2], words[3], Integer.parseInt(words[4]));
            default -> consume(words[1], words[2], words[3], Integer.parseInt(words[4]));
        }
        System.exit(0);
    }

    static void produce(String servers, String topic, int count) throws Exception {
        try (Producer producer = producer(servers, topic)) {
            for (int n = 0; n < count; n++) {
                long due = System.currentTimeMillis() + new int[] {0, 1000, 700, 900, -1000}[n % 5];
                MessageBuilder message = message(topic, Integer.toString(n)).setDeliveryTimestamp(due);
                send(producer, message.build());
            }
        }
    }

    static void refused(String servers, String topic) throws Exception {
        try (Producer producer = producer(servers, topic)) {
            send(producer, message(topic, "0").addProperty("delay", "soon").build());
            send(producer, message(topic, "1").addProperty("delay", "1s").build());
        }
    }

    /** Two that are due in two seconds; the first is recalled. */
    static void recall(String servers, String topic) throws Exception {
        try (Producer producer = producer(servers, topic)) {
            long due = System.currentTimeMillis() + 2000;
            SendReceipt first = producer.send(message(topic, "0").setDeliveryTimestamp(due).build());
            producer.send(message(topic, "1").setDeliveryTimestamp(due).build());
            producer.recallMessage(topic, first.getRecallHandle());
            print("recalled 0 " + first.getMessageId());
        }
    }

    static void consume(String servers, String topic, String group, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        Set<String> failed = Collections.synchronizedSet(new HashSet<>());
        PushConsumer consumer = PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(configuration(servers))
            .setConsumerGroup(group)
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .setMessageListener(message -> {
                String value = text(message);
                if (value.equals("7") && failed.add(value)) {  // one of them is sent back, and comes again
                    return ConsumeResult.FAILURE;
                }
                print("read 0 0 " + value);
                left.countDown();
                return ConsumeResult.SUCCESS;
            })
            .build();
        left.await(60, TimeUnit.SECONDS);
        consumer.close();
    }

    static void simple(String servers, String topic, String group, int count) throws Exception {
        try (SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration(servers))
            .setConsumerGroup(group)
            .setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
            .build()) {
            long until = System.nanoTime() + 60_000_000_000L;
            for (int seen = 0; seen < count && System.nanoTime() < until;) {
                for (MessageView message : received(consumer)) {
                    print("read 0 0 " + text(message));
                    consumer.ack(message);
                    seen++;
                }
            }
        }
    }

    /** None where the proxy has not answered in time: on a busy machine it takes longer than it was asked to wait. */
    static List<MessageView> received(SimpleConsumer consumer) throws Exception {
        try {
            return consumer.receive(16, Duration.ofSeconds(20));
        } catch (StatusRuntimeException error) {
            if (error.getStatus().getCode() == Status.Code.DEADLINE_EXCEEDED) {
                return List.of();
            }
            throw error;
        }
    }

    static ClientConfiguration configuration(String servers) {
        return ClientConfiguration.newBuilder().setEndpoints(servers).enableSsl(false).setRequestTimeout(Duration.ofSeconds(20)).build();
    }

    static Producer producer(String servers, String topic) throws Exception {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration(servers)).setTopics(topic).build();
    }

    static MessageBuilder message(String topic, String value) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setTag("t").setKeys("k" + value).setBody(value.getBytes(StandardCharsets.UTF_8));
    }

    static void send(Producer producer, Message message) {
        String value = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        try {
            print("acked " + value + " " + producer.send(message).getMessageId());
        } catch (Exception error) {
            print("failed " + value + " " + String.valueOf(error.getMessage()).replace('\n', ' '));
        }
    }

    static String text(MessageView message) {
        return StandardCharsets.UTF_8.decode(message.getBody()).toString();
    }

    static synchronized void print(String line) {
        System.out.println(line);
    }
}
