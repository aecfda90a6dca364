import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.ConcurrentHashMap;
import java.util.Set;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** RocketMQ's own client over remoting; see programs.py. */
public class Remoting {
    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "produce" -> produce(words[1], words[2], Integer.parseInt(words[3]));
            case "refused" -> refused(words[1], words[2]);
            default -> consume(words[1], words[2], words[3], Integer.parseInt(words[4]));
        }
        System.exit(0);
    }

    static void produce(String servers, String topic, int count) throws Exception {
        DefaultMQProducer producer = producer(servers);
        for (int n = 0; n < count; n++) {
            Message message = new Message(topic, "t", "k" + n, Integer.toString(n).getBytes());
            switch (n % 5) {
                case 1 -> message.setDelayTimeLevel(1);
                case 2 -> MessageAccessor.putProperty(message, "TIMER_DELAY_MS", "700");
                case 3 -> message.putUserProperty("delay", "900ms");
                case 4 -> MessageAccessor.putProperty(message, "__STARTDELIVERTIME", Long.toString(System.currentTimeMillis() + 800));
                default -> { }
            }
            send(producer, message);
        }
        producer.shutdown();
    }

    static void refused(String servers, String topic) throws Exception {
        DefaultMQProducer producer = producer(servers);
        Message wrong = new Message(topic, "0".getBytes());
        wrong.putUserProperty("delay", "soon");
        send(producer, wrong);
        Message right = new Message(topic, "1".getBytes());
        right.putUserProperty("delay", "1s");
        send(producer, right);
        producer.shutdown();
    }

    static void consume(String servers, String topic, String group, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        Set<String> failed = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(servers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String value = new String(message.getBody());
                if (value.equals("7") && failed.add(value)) {  // one of them is sent back, and comes again
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                print("read " + message.getQueueId() + " " + message.getQueueOffset() + " " + value);
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(60, TimeUnit.SECONDS);
        consumer.shutdown();
    }

    static DefaultMQProducer producer(String servers) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(servers);
        producer.setSendMsgTimeout(20_000);
        producer.start();
        return producer;
    }

    static void send(DefaultMQProducer producer, Message message) {
        String value = new String(message.getBody());
        try {
            SendResult sent = producer.send(message);
            print((sent.getSendStatus() == SendStatus.SEND_OK ? "acked " : "failed ") + value + " " + sent.getMsgId());
        } catch (Exception error) {
            print("failed " + value + " " + String.valueOf(error.getMessage()).replace('\n', ' '));
        }
    }

    static synchronized void print(String line) {
        System.out.println(line);
    }
}
