import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.producer.RecallMessageHandle;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.remoting.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.SendMessageRequestHeaderV2;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;

/** RocketMQ's own encoders and decoders: `Vectors <file>` answers each line `kind hex` of the file with what Java reads
 *  there, and then says what Java itself writes. One line per answer: name, tab, text. */
public class Vectors {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] parts = line.split(" ", 2);
            byte[] data = HEX.parseHex(parts.length > 1 ? parts[1] : "");
            String read;
            try {
                read = read(parts[0], data);
            } catch (Throwable error) {
                read = "error " + error;
            }
            System.out.println("read\t" + read.replace("\n", " "));
        }
        constants("request", RequestCode.class);
        constants("answer", ResponseCode.class);
        headers();
        frames();
        messages();
        rest();
    }

    // --- what Java reads

    static String read(String kind, byte[] data) throws Exception {
        switch (kind) {
            case "frame": return frame(RemotingCommand.decode(ByteBuffer.wrap(data, 4, data.length - 4).slice()));
            case "message": return message(MessageDecoder.decode(ByteBuffer.wrap(data), true, true, true, false, true));
            case "batch": return batch(MessageDecoder.decodeMessages(ByteBuffer.wrap(data)));
            case "properties": return map(MessageDecoder.string2messageProperties(text(data)));
            case "id": MessageId id = MessageDecoder.decodeMessageId(text(data)); return id.getAddress() + " " + id.getOffset();
            case "recall": RecallMessageHandle.HandleV1 one = (RecallMessageHandle.HandleV1) RecallMessageHandle.decodeHandle(text(data));
                return one.getTopic() + " " + one.getBrokerName() + " " + one.getTimestampStr() + " " + one.getMessageId();
            case "sign": return signature(RemotingCommand.decode(ByteBuffer.wrap(data, 4, data.length - 4).slice()));
            case "route": return RemotingSerializable.decode(data, TopicRouteData.class).toString();
            case "lock": LockBatchRequestBody lock = RemotingSerializable.decode(data, LockBatchRequestBody.class);
                return lock.getConsumerGroup() + " " + lock.getClientId() + " " + lock.isOnlyThisBroker() + " " + lock.getMqSet();
            case "heartbeat": return RemotingSerializable.decode(data, HeartbeatData.class).toString();
            default: throw new IllegalArgumentException(kind);
        }
    }

    static String text(byte[] data) {
        return new String(data, StandardCharsets.UTF_8);
    }

    static String hex(byte[] data) {
        return data == null ? "" : HEX.formatHex(data);
    }

    static String map(Map<String, String> map) {
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, String> one : new TreeMap<>(map == null ? Map.of() : map).entrySet()) {
            text.append(hex(one.getKey().getBytes(StandardCharsets.UTF_8))).append('=');
            text.append(hex(one.getValue().getBytes(StandardCharsets.UTF_8))).append(',');
        }
        return text.toString();
    }

    static String frame(RemotingCommand one) {
        String remark = one.getRemark() == null ? "" : one.getRemark();
        return one.getCode() + "|" + one.getLanguage() + "|" + one.getVersion() + "|" + one.getOpaque() + "|" + one.getFlag() + "|"
            + hex(remark.getBytes(StandardCharsets.UTF_8)) + "|" + one.getSerializeTypeCurrentRPC() + "|" + map(one.getExtFields())
            + "|" + hex(one.getBody());
    }

    static String message(MessageExt one) {
        return one.getTopic() + "|" + one.getQueueId() + "|" + one.getQueueOffset() + "|" + one.getCommitLogOffset() + "|"
            + one.getFlag() + "|" + one.getBornTimestamp() + "|" + host(one.getBornHost()) + "|" + one.getStoreTimestamp() + "|"
            + host(one.getStoreHost()) + "|" + one.getReconsumeTimes() + "|" + one.getPreparedTransactionOffset() + "|"
            + map(one.getProperties()) + "|" + hex(one.getBody()) + "|" + ((MessageClientExt) one).getOffsetMsgId();
    }

    static String host(SocketAddress address) {
        InetSocketAddress one = (InetSocketAddress) address;
        return hex(one.getAddress().getAddress()) + ":" + one.getPort();
    }

    static String batch(List<Message> messages) {
        StringBuilder text = new StringBuilder();
        for (Message one : messages) {
            text.append(one.getFlag()).append('|').append(hex(one.getBody())).append('|').append(map(one.getProperties())).append(';');
        }
        return text.toString();
    }

    static String signature(RemotingCommand one) {
        new AclClientRPCHook(new SessionCredentials("user", "secret of the user")).doBeforeRequest("", one);
        return one.getExtFields().get(SessionCredentials.SIGNATURE);
    }

    // --- what Java writes

    static void say(String name, String text) {
        System.out.println(name + "\t" + text);
    }

    static void constants(String name, Class<?> of) throws Exception {
        for (Field field : of.getFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                say(name, field.getName() + " " + ((Number) field.get(null)).intValue());
            }
        }
    }

    static void headers() throws Exception {
        String[] names = {"SendMessageRequestHeader", "SendMessageRequestHeaderV2", "SendMessageResponseHeader",
            "ConsumerSendMsgBackRequestHeader", "RecallMessageRequestHeader", "RecallMessageResponseHeader",
            "EndTransactionRequestHeader", "CheckTransactionStateRequestHeader", "PullMessageRequestHeader",
            "PullMessageResponseHeader", "GetMaxOffsetRequestHeader", "GetMinOffsetRequestHeader", "GetMaxOffsetResponseHeader",
            "GetEarliestMsgStoretimeRequestHeader", "GetEarliestMsgStoretimeResponseHeader", "SearchOffsetRequestHeader",
            "QueryConsumerOffsetRequestHeader", "UpdateConsumerOffsetRequestHeader", "ViewMessageRequestHeader",
            "QueryMessageRequestHeader", "namesrv.GetRouteInfoRequestHeader", "CreateTopicRequestHeader",
            "DeleteTopicRequestHeader", "GetTopicConfigRequestHeader", "GetSubscriptionGroupConfigRequestHeader",
            "DeleteSubscriptionGroupRequestHeader", "GetConsumerListByGroupRequestHeader",
            "NotifyConsumerIdsChangedRequestHeader", "UnregisterClientRequestHeader"};
        for (String name : names) {
            Class<?> of = Class.forName("org.apache.rocketmq.remoting.protocol.header." + name);
            StringBuilder fields = new StringBuilder(of.getSimpleName());
            for (Class<?> at = of; at != Object.class; at = at.getSuperclass()) {
                for (Field field : at.getDeclaredFields()) {
                    if (!Modifier.isStatic(field.getModifiers())) {
                        boolean required = field.getAnnotation(CFNotNull.class) != null && !field.getType().isPrimitive();
                        fields.append(' ').append(field.getName()).append(required ? "!" : "");
                    }
                }
            }
            say("header", fields.toString());
        }
    }

    static void frames() throws Exception {
        for (SerializeType type : SerializeType.values()) {
            SendMessageRequestHeaderV2 send = new SendMessageRequestHeaderV2();
            send.setA("group");
            send.setB("topic");
            send.setC("TBW102");
            send.setD(4);
            send.setE(3);
            send.setF(1);
            send.setG(1767225600123L);
            send.setH(-7);
            send.setI("KEYS\u0001a b\u0002\u00fc\u0001\u6f22\u0002");
            send.setJ(2);
            send.setM(true);
            Field broker = SendMessageRequestHeaderV2.class.getDeclaredField("n");
            broker.setAccessible(true);
            broker.set(send, "broker-a");
            frame("send", type, RequestCode.SEND_BATCH_MESSAGE, send, new byte[] {1, 2, 3});
            PullMessageRequestHeader pull = new PullMessageRequestHeader();
            pull.setConsumerGroup("group");
            pull.setTopic("topic");
            pull.setQueueId(1);
            pull.setQueueOffset(Long.MAX_VALUE);
            pull.setMaxMsgNums(32);
            pull.setSysFlag(6);
            pull.setCommitOffset(0L);
            pull.setSuspendTimeoutMillis(15000L);
            pull.setSubVersion(5L);
            pull.setSubscription("a || \"b\"");
            frame("pull", type, RequestCode.PULL_MESSAGE, pull, null);
        }
    }

    static void frame(String name, SerializeType type, int code, org.apache.rocketmq.remoting.CommandCustomHeader header, byte[] body) {
        RemotingCommand one = RemotingCommand.createRequestCommand(code, header);
        one.setSerializeTypeCurrentRPC(type);
        one.setBody(body);
        one.setRemark("a remark");
        ByteBuffer data = one.encode();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        say("frame", name + " " + hex(bytes) + " " + frame(one));
    }

    static void messages() throws Exception {
        int[] compressions = {0, 0x1, 0x101, 0x201, 0x301};
        String[] hosts = {"10.0.0.1", "2001:db8::1"};
        byte[] body = "a body that repeats, repeats, repeats, repeats".repeat(40).getBytes(StandardCharsets.UTF_8);
        for (int compression : compressions) {
            for (String born : hosts) {
                for (String stored : hosts) {
                    MessageExt one = new MessageClientExt();
                    one.setTopic("topic");
                    one.setBody(body);
                    one.setQueueId(3);
                    one.setQueueOffset(1L << 40);
                    one.setCommitLogOffset(1L << 50);
                    one.setFlag(-5);
                    one.setSysFlag(compression | (born == hosts[1] ? 0x10 : 0) | (stored == hosts[1] ? 0x20 : 0));
                    one.setBornTimestamp(1767225600123L);
                    one.setBornHost(new InetSocketAddress(InetAddress.getByName(born), 1234));
                    one.setStoreTimestamp(1767225600456L);
                    one.setStoreHost(new InetSocketAddress(InetAddress.getByName(stored), 10911));
                    one.setReconsumeTimes(3);
                    one.setPreparedTransactionOffset(77);
                    one.putUserProperty("name", "\u00e4");
                    one.setKeys("k1 k2");
                    byte[] data = MessageDecoder.encode(one, true);
                    ByteBuffer checked = ByteBuffer.wrap(data.clone());
                    int at = 76 + (born == hosts[1] ? 12 : 0) + (stored == hosts[1] ? 12 : 0) + 8;
                    int length = checked.getInt(at);
                    checked.putInt(8, UtilAll.crc32(data, at + 4, length));
                    say("message", hex(checked.array()) + " " + message(MessageDecoder.decode(checked, true, true, true, false, true)));
                }
            }
        }
        List<Message> members = new ArrayList<>();
        for (int n = 0; n < 3; n++) {
            Message member = new Message("topic", ("member " + n).getBytes(StandardCharsets.UTF_8));
            member.setFlag(n);
            member.putUserProperty("n", "" + n);
            members.add(member);
        }
        say("batch", hex(MessageDecoder.encodeMessages(members)) + " " + batch(members));
    }

    static void rest() throws Exception {
        say("id", MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName("10.0.0.1"), 10911), 1L << 40));
        say("id", MessageDecoder.createMessageId(new InetSocketAddress(InetAddress.getByName("2001:db8::1"), 10911), 1L << 40));
        say("unique", MessageClientIDSetter.createUniqID());
        say("recall", RecallMessageHandle.HandleV1.buildHandle("topic", "broker-a", "1767225600001", "KEY?>"));
        TopicRouteData route = new TopicRouteData();
        QueueData queue = new QueueData();
        queue.setBrokerName("broker-a");
        queue.setReadQueueNums(4);
        queue.setWriteQueueNums(3);
        queue.setPerm(6);
        HashMap<Long, String> addresses = new HashMap<>();
        addresses.put(0L, "10.0.0.1:10911");
        addresses.put(1L, "10.0.0.2:10911");
        BrokerData broker = new BrokerData("DefaultCluster", "broker-a", addresses);
        broker.setEnableActingMaster(true);
        route.setQueueDatas(new ArrayList<>(List.of(queue)));
        route.setBrokerDatas(new ArrayList<>(List.of(broker)));
        say("route", hex(route.encode()));
    }
}
