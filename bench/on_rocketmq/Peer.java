import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** RocketMQ's own client: `Peer <name server> <topic> <broker> <batch> <in flight> <bytes>`, then a line for each lap:
 *  `send <batches>` or `pull <messages>`, answered with a line when it is done. */
public class Peer {
    public static void main(String[] args) throws Exception {
        MessageQueue queue = new MessageQueue(args[1], args[2], 1);
        int batch = Integer.parseInt(args[3]);
        int inFlight = Integer.parseInt(args[4]);
        byte[] body = new byte[Integer.parseInt(args[5])];
        DefaultMQProducer producer = new DefaultMQProducer("bench-producer");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(30000);
        producer.start();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("bench-consumer");
        consumer.setNamesrvAddr(args[0]);
        consumer.start();
        ExecutorService pool = Executors.newFixedThreadPool(inFlight);
        System.out.println("ready");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNext()) {
            String act = lines.next();
            int count = lines.nextInt();
            if (act.equals("send")) {
                List<Future<?>> sent = new ArrayList<>();
                for (int n = 0; n < count; n++) {
                    sent.add(pool.submit(() -> {
                        List<Message> messages = new ArrayList<>(batch);
                        for (int m = 0; m < batch; m++) {
                            messages.add(new Message(args[1], "", "key", body));
                        }
                        return producer.send(messages, queue);
                    }));
                }
                for (Future<?> one : sent) {
                    one.get();
                }
            } else {
                long offset = 0;
                for (int seen = 0; seen < count; ) {
                    PullResult result = consumer.pull(queue, "*", offset, 1000);
                    seen += result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size();
                    offset = result.getMsgFoundList() == null ? 0 : result.getNextBeginOffset();
                }
            }
            System.out.println("done");
        }
        pool.shutdownNow();
        consumer.shutdown();
        producer.shutdown();
    }
}
