import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** RocketMQ's own client: `Peer <name server> <topic> <broker> <batch> <in flight> <bytes>`, then a line for each lap:
 *  `send <batches>`, `single <messages>`, `delayed <messages>` (due in an hour), `paced <messages>` (5,000 a second) or
 *  `pull <messages>`, answered with a line when it is done. Behind `paced` it has p50 and p99 in microseconds. */
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
            } else if (!act.equals("pull")) {
                singles(producer, queue, body, count, inFlight, act);
                continue;
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

    static void singles(DefaultMQProducer producer, MessageQueue queue, byte[] body, int count, int inFlight, String act) throws Exception {
        Semaphore room = new Semaphore(inFlight);
        long[] took = new long[count];
        AtomicReference<Throwable> failure = new AtomicReference<>();
        long begin = System.nanoTime();
        for (int n = 0; n < count; n++) {
            if (act.equals("paced")) {
                LockSupport.parkNanos(begin + n * 200_000L - System.nanoTime());
            }
            Message message = new Message(queue.getTopic(), "", "key", body);
            if (act.equals("delayed")) {
                message.setDelayTimeSec(3600);
            }
            room.acquire();
            int number = n;
            long sent = System.nanoTime();
            producer.send(message, queue, new SendCallback() {
                @Override public void onSuccess(SendResult result) {
                    took[number] = System.nanoTime() - sent;
                    room.release();
                }
                @Override public void onException(Throwable error) {
                    failure.set(error);
                    room.release();
                }
            });
        }
        room.acquire(inFlight);
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        Arrays.sort(took);
        System.out.println(act.equals("paced") ? "done " + took[count / 2] / 1000 + " " + took[count * 99 / 100] / 1000 : "done");
    }
}
