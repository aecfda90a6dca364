// RocketMQ's client for Go; see programs.py.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

func main() {
	rlog.SetLogLevel("error")
	words := os.Args[1:]
	switch words[0] {
	case "produce":
		produce(words[1], words[2], number(words[3]))
	case "refused":
		refused(words[1], words[2])
	default:
		consume(words[1], words[2], words[3], number(words[4]))
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func produce(servers, topic string, count int) {
	p := started(servers)
	defer p.Shutdown()
	for n := 0; n < count; n++ {
		m := primitive.NewMessage(topic, []byte(strconv.Itoa(n)))
		switch n % 5 {
		case 1:
			m.WithDelayTimeLevel(1)
		case 2:
			m.WithProperty("TIMER_DELAY_MS", "700")
		case 3:
			m.WithProperty("delay", "900ms")
		case 4:
			m.WithProperty("__STARTDELIVERTIME", strconv.FormatInt(time.Now().UnixMilli()+800, 10))
		}
		send(p, m)
	}
}

func refused(servers, topic string) {
	p := started(servers)
	defer p.Shutdown()
	wrong := primitive.NewMessage(topic, []byte("0"))
	wrong.WithProperty("delay", "soon")
	send(p, wrong)
	right := primitive.NewMessage(topic, []byte("1"))
	right.WithProperty("delay", "1s")
	send(p, right)
}

func consume(servers, topic, group string, count int) {
	var lock sync.Mutex
	failed, seen := false, 0
	done := make(chan struct{})
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNameServer([]string{servers}),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, m := range messages {
			value := string(m.Body)
			if value == "7" && !failed { // one of them is sent back, and comes again
				failed = true
				return consumer.ConsumeRetryLater, nil
			}
			fmt.Println("read", m.Queue.QueueId, m.QueueOffset, value)
			if seen++; seen == count {
				close(done)
			}
		}
		return consumer.ConsumeSuccess, nil
	}))
	check(c.Start())
	select {
	case <-done:
	case <-time.After(time.Minute):
	}
	check(c.Shutdown())
}

func started(servers string) rocketmq.Producer {
	p, err := rocketmq.NewProducer(
		producer.WithNameServer([]string{servers}),
		producer.WithGroupName("producers"),
		producer.WithSendMsgTimeout(20*time.Second))
	check(err)
	check(p.Start())
	return p
}

func send(p rocketmq.Producer, m *primitive.Message) {
	sent, err := p.SendSync(context.Background(), m)
	switch {
	case err != nil:
		fmt.Println("failed", string(m.Body), strings.ReplaceAll(err.Error(), "\n", " "))
	case sent.Status != primitive.SendOK:
		fmt.Println("failed", string(m.Body), sent.Status)
	default:
		fmt.Println("acked", string(m.Body), sent.MsgID)
	}
}
