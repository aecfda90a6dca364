import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/** RocketMQ's own client, with its commands as lines of JSON on stdin: `JavaClient <name servers> [<access key> <secret key>]`. It prints a line for
 *  each command, `{"answer": ...}` or `{"error": ...}`, and one for each message that a consumer gets, and ends with
 *  stdin. `java_client.py` has the commands. */
public class JavaClient {
    static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    static final int PATIENCE_MS = 60_000; // 3,000 is too short for a busy machine
    static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();
    static final Map<String, TransactionMQProducer> TRANSACTING = new HashMap<>();
    static final Map<String, LocalTransactionState> CHECKED = new ConcurrentHashMap<>();
    static String names;
    static RPCHook account; // signs, where there is one
    static boolean traces; // of producers and consumers made from now on
    static DefaultMQProducer producer;
    static final List<Thread> STREAMS = new ArrayList<>();
    static volatile boolean streaming;
    /** Requests that this thread's send has taken: the client repeats one that had no answer. */
    static final ThreadLocal<Integer> ATTEMPTS = ThreadLocal.withInitial(() -> 0);

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // where the client logs
        names = args[0];
        account = args.length < 3 ? null : new AclClientRPCHook(new SessionCredentials(args[1], args[2]));
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            try {
                say(JSONObject.of("answer", obey(JSON.parseObject(line))));
            } catch (Exception error) {
                say(JSONObject.of("error", error.getCause() == null ? error.toString() : error + " because of " + error.getCause()));
            }
        }
        Runtime.getRuntime().halt(0);
    }

    static Object obey(JSONObject command) throws Exception {
        switch (command.getString("do")) {
            case "consume": return consume(command);
            case "stop": CONSUMERS.remove(command.getString("name")).shutdown(); return "stopped";
            case "send": return send(command);
            case "stream": return stream(command);
            case "hush": return hush();
            case "transact": return transact(command);
            case "recall": return producer().recallMessage(command.getString("topic"), command.getString("handle"));
            case "trace": traces = true; return "on";
            case "traced": return traced(command);
            case "view": return seen(producer().viewMessage(command.getString("topic"), command.getString("id")));
            case "find": return find(command);
            default: throw new IllegalArgumentException(command.toString());
        }
    }

    static synchronized void say(JSONObject line) {
        OUT.println(line);
    }

    // --- consumers

    static Object consume(JSONObject command) throws Exception {
        String name = command.getString("name");
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(command.getString("group"), account);
        consumer.setNamesrvAddr(names);
        consumer.setInstanceName(name);
        consumer.setEnableTrace(traces);
        consumer.setMqClientApiTimeout(PATIENCE_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setPollNameServerInterval(500);
        consumer.setMessageModel(command.getBooleanValue("broadcasting") ? MessageModel.BROADCASTING : MessageModel.CLUSTERING);
        consumer.setMaxReconsumeTimes(command.getIntValue("retries", -1));
        if (command.containsKey("sql")) {
            consumer.subscribe(command.getString("topic"), MessageSelector.bySql(command.getString("sql")));
        } else {
            consumer.subscribe(command.getString("topic"), command.getString("tags"));
        }
        int failures = command.getIntValue("failures");
        if (command.getBooleanValue("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                context.setSuspendCurrentQueueTimeMillis(100);
                return got(name, messages, failures) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(1);
                return got(name, messages, failures) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        if (command.containsKey("pop")) {
            consumer.setClientRebalance(false);
            producer().getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl().setMessageRequestMode(
                command.getString("pop"), command.getString("topic"), command.getString("group"), MessageRequestMode.POP, 8, PATIENCE_MS);
        }
        consumer.start();
        CONSUMERS.put(name, consumer);
        return "started";
    }

    /** Whether it is consumed: what has come for fewer times than it is to fail is not. */
    static boolean got(String consumer, List<MessageExt> messages, int failures) {
        boolean consumed = true;
        for (MessageExt message : messages) {
            say(seen(message).fluentPut("consumer", consumer));
            consumed &= message.getReconsumeTimes() >= failures;
        }
        return consumed;
    }

    static JSONObject seen(MessageExt one) {
        return JSONObject.of("body", Base64.getEncoder().encodeToString(one.getBody()), "properties", new HashMap<>(one.getProperties()))
            .fluentPut("topic", one.getTopic())
            .fluentPut("queue", one.getQueueId())
            .fluentPut("flag", one.getFlag())
            .fluentPut("sys_flag", one.getSysFlag())
            .fluentPut("born_ms", one.getBornTimestamp())
            .fluentPut("stored_ms", one.getStoreTimestamp())
            .fluentPut("seen_ms", System.currentTimeMillis())
            .fluentPut("reconsume_times", one.getReconsumeTimes())
            .fluentPut("msg_id", one.getMsgId());
    }

    // --- the producer

    static DefaultMQProducer producer() throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("producers", account);
            producer.setNamesrvAddr(names);
            producer.setEnableTrace(traces);
            producer.setMqClientApiTimeout(PATIENCE_MS);
            producer.setSendMsgTimeout(PATIENCE_MS);
            producer.start();
        }
        return producer;
    }

    static Message message(JSONObject command) {
        Message message = new Message(command.getString("topic"), Base64.getDecoder().decode(command.getString("body")));
        message.setKeys(command.getString("keys"));
        message.setTags(command.getString("tags"));
        for (Map.Entry<String, Object> one : command.getJSONObject("properties").entrySet()) {
            message.putUserProperty(one.getKey(), (String) one.getValue());
        }
        if (command.containsKey("level")) {
            message.setDelayTimeLevel(command.getIntValue("level"));
        }
        if (command.containsKey("delay_ms")) {
            message.setDelayTimeMs(command.getLongValue("delay_ms"));
        }
        if (command.containsKey("delay_sec")) {
            message.setDelayTimeSec(command.getLongValue("delay_sec"));
        }
        if (command.containsKey("deliver_ms")) {
            message.setDeliverTimeMs(command.getLongValue("deliver_ms"));
        }
        message.setFlag(command.getIntValue("flag"));
        return message;
    }

    static Object send(JSONObject command) throws Exception {
        Message message = message(command);
        MessageQueue queue = new MessageQueue(command.getString("topic"), command.getString("broker"), command.getIntValue("queue"));
        switch (String.valueOf(command.getString("how"))) {
            case "one-way": producer().sendOneway(message, queue); return new JSONObject();
            case "async": return sentLater(message, queue);
            default: return result(command.getBooleanValue("batch") ? producer().send(List.of(message), queue) : producer().send(message, queue));
        }
    }

    static JSONObject sentLater(Message message, MessageQueue queue) throws Exception {
        CompletableFuture<SendResult> sent = new CompletableFuture<>();
        producer().send(message, queue, new SendCallback() {
            @Override public void onSuccess(SendResult result) {
                sent.complete(result);
            }
            @Override public void onException(Throwable error) {
                sent.completeExceptionally(error);
            }
        });
        return result(sent.get());
    }

    static JSONObject result(SendResult sent) {
        return JSONObject.of("msg_id", sent.getMsgId(), "status", sent.getSendStatus().name(), "handle", sent.getRecallHandle())
            .fluentPut("queue", sent.getMessageQueue().getQueueId())
            .fluentPut("broker", sent.getMessageQueue().getBrokerName())
            .fluentPut("offset", sent.getQueueOffset())
            .fluentPut("transaction_id", sent.getTransactionId());
    }

    /** A transaction with the outcome of the command, or that of a check. */
    static JSONObject transact(JSONObject command) throws Exception {
        Object outcome = LocalTransactionState.valueOf(command.getString("outcome"));
        return result(transacting(command).sendMessageInTransaction(message(command), outcome));
    }

    /** The producer of this group, which answers checks with what its last command has for that, and prints each. */
    static TransactionMQProducer transacting(JSONObject command) throws Exception {
        String group = command.getString("group");
        CHECKED.put(group, LocalTransactionState.valueOf(command.getString("check")));
        if (TRANSACTING.containsKey(group)) {
            return TRANSACTING.get(group);
        }
        TransactionMQProducer transacting = new TransactionMQProducer(group, account);
        transacting.setNamesrvAddr(names);
        transacting.setInstanceName(group);
        transacting.setEnableTrace(traces);
        transacting.setMqClientApiTimeout(PATIENCE_MS);
        transacting.setHeartbeatBrokerInterval(1_000); // from the second one on a broker asks it: the first is too early
        transacting.setSendMsgTimeout(PATIENCE_MS);
        transacting.setTransactionListener(new TransactionListener() {
            @Override public LocalTransactionState executeLocalTransaction(Message message, Object outcome) {
                return (LocalTransactionState) outcome;
            }
            @Override public LocalTransactionState checkLocalTransaction(MessageExt message) {
                say(seen(message).fluentPut("consumer", group));
                return CHECKED.get(group);
            }
        });
        transacting.start();
        TRANSACTING.put(group, transacting);
        return transacting;
    }

    static JSONArray find(JSONObject command) throws Exception {
        JSONArray found = new JSONArray();
        String topic = command.getString("topic");
        for (MessageExt one : producer().queryMessage(topic, command.getString("key"), 32, 0, Long.MAX_VALUE).getMessageList()) {
            found.add(seen(one));
        }
        return found;
    }

    /** What the topic of traces has about a message. */
    static JSONArray traced(JSONObject command) throws Exception {
        JSONArray found = new JSONArray();
        String id = command.getString("id");
        for (MessageExt one : producer().queryMessage("RMQ_SYS_TRACE_TOPIC", id, 32, 0, Long.MAX_VALUE).getMessageList()) {
            for (TraceContext act : TraceDataEncoder.decoderFromTraceDataString(new String(one.getBody(), StandardCharsets.UTF_8))) {
                for (TraceBean bean : act.getTraceBeans()) {
                    if (id.equals(bean.getMsgId())) {
                        found.add(JSONObject.of("type", act.getTraceType().name(), "topic", bean.getTopic(), "success", act.isSuccess())
                            .fluentPut("group", act.getGroupName()));
                    }
                }
            }
        }
        return found;
    }

    // --- a numbered stream

    static final String[] WAYS = {"level", "ms", "ms", "moment", "directive", "plain", "plain", "batch", "one-way"};
    static final int[] LEVELS_MS = {1000, 5000};
    static final int DELAY_MAX_MS = 4000, MEMBERS = 5, AFTER_FAILURE_MS = 200;

    /** Sends by several threads until `hush`, and prints what is known of each message once its send has ended. */
    static Object stream(JSONObject command) throws Exception {
        producer().getDefaultMQProducerImpl().registerSendMessageHook(new SendMessageHook() {
            @Override public String hookName() {
                return "attempts";
            }
            @Override public void sendMessageBefore(SendMessageContext context) {
                ATTEMPTS.set(ATTEMPTS.get() + 1);
            }
            @Override public void sendMessageAfter(SendMessageContext context) {
            }
        });
        streaming = true;
        for (int thread = 0; thread < command.getIntValue("threads"); thread++) {
            String name = "java-" + thread;
            Random random = new Random(command.getLongValue("seed") + thread);
            STREAMS.add(new Thread(() -> sendOn(command.getString("topic"), name, random, command.getIntValue("pause_ms"))));
            STREAMS.get(thread).start();
        }
        return "started";
    }

    static Object hush() throws Exception {
        streaming = false;
        for (Thread thread : STREAMS) {
            thread.join();
        }
        return "hushed";
    }

    static void sendOn(String topic, String name, Random random, int pauseMs) {
        for (int number = 0; streaming; number++) {
            String way = WAYS[random.nextInt(WAYS.length)];
            List<Message> messages = new ArrayList<>();
            List<JSONObject> notes = new ArrayList<>();
            for (int member = 0; member < (way.equals("batch") ? MEMBERS : 1); member++) {
                String tag = name + "-" + number + "." + member;
                messages.add(new Message(topic, tag.getBytes(StandardCharsets.UTF_8)));
                notes.add(delayed(messages.get(member), way, random).fluentPut("tag", tag).fluentPut("way", way));
            }
            ATTEMPTS.set(0);
            String error = sentAs(way, messages);
            notes.forEach(note -> say(note.fluentPut("attempts", ATTEMPTS.get()).fluentPut("failure", error)));
            pause(error.isEmpty() ? pauseMs : AFTER_FAILURE_MS);
        }
    }

    /** What asks for the delay, and when it is due. Java's client refuses RocketMQ's own delays in batches. */
    static JSONObject delayed(Message message, String way, Random random) {
        int level = random.nextInt(LEVELS_MS.length), ms = 1 + random.nextInt(DELAY_MAX_MS);
        switch (way) {
            case "level": message.setDelayTimeLevel(level + 1); return JSONObject.of("delay_ms", LEVELS_MS[level]);
            case "moment":
                message.setDeliverTimeMs(System.currentTimeMillis() + ms);
                return JSONObject.of("deliver_ms", message.getDeliverTimeMs());
            case "ms": case "one-way": message.setDelayTimeMs(ms); return JSONObject.of("delay_ms", ms);
            case "plain": return new JSONObject();
            default:
                if (way.equals("batch") && random.nextBoolean()) {
                    return new JSONObject();
                }
                message.putUserProperty("delay-ms", String.valueOf(ms));
                return JSONObject.of("delay_ms", ms);
        }
    }

    /** Why it is not known to be stored; empty where it is, and for one-way sends. */
    static String sentAs(String way, List<Message> messages) {
        try {
            if (way.equals("one-way")) {
                producer.sendOneway(messages.get(0));
            } else if (way.equals("batch")) {
                producer.send(messages);
            } else {
                producer.send(messages.get(0));
            }
            return "";
        } catch (Exception error) {
            return error.toString();
        }
    }

    static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
