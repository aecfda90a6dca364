// kafka-go: see ../../programs.py for what a program is asked.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

func main() {
	servers, topic := strings.Split(os.Args[2], ","), os.Args[3]
	switch os.Args[1] {
	case "produce":
		produce(servers, topic, number(os.Args[4]))
	case "consume":
		consume(servers, topic, number(os.Args[4]))
	case "refused":
		refused(servers, topic)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func message(value string, delay string) kafka.Message {
	one := kafka.Message{Key: []byte(value), Value: []byte(value)}
	if delay != "" {
		one.Headers = []kafka.Header{{Key: "delay", Value: []byte(delay)}}
	}
	return one
}

func produce(servers []string, topic string, count int) {
	writer := &kafka.Writer{Addr: kafka.TCP(servers...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond, MaxAttempts: 20}
	var printing sync.Mutex
	writer.Completion = func(messages []kafka.Message, err error) {
		printing.Lock()
		defer printing.Unlock()
		for _, one := range messages {
			if err != nil {
				fmt.Printf("failed %s %v\n", one.Value, err)
			} else {
				fmt.Printf("acked %s %d\n", one.Value, one.Offset)
			}
		}
	}
	messages := make([]kafka.Message, count)
	for n := range count {
		delay := ""
		if n%3 == 0 {
			delay = "1s"
		}
		messages[n] = message(strconv.Itoa(n), delay)
	}
	_ = writer.WriteMessages(context.Background(), messages...)
	check(writer.Close())
}

func consume(servers []string, topic string, count int) {
	connection, err := kafka.Dial("tcp", servers[0])
	check(err)
	partitions, err := connection.ReadPartitions(topic)
	check(err)
	messages := make(chan kafka.Message, 100)
	for _, partition := range partitions {
		reader := kafka.NewReader(kafka.ReaderConfig{Brokers: servers, Topic: topic, Partition: partition.ID, IsolationLevel: kafka.ReadCommitted, MaxWait: time.Second})
		check(reader.SetOffset(kafka.FirstOffset))
		go func() {
			for {
				one, err := reader.ReadMessage(context.Background())
				if err != nil {
					return
				}
				messages <- one
			}
		}()
	}
	values := map[string]bool{}
	for len(values) < count {
		select {
		case one := <-messages:
			fmt.Printf("read %d %d %s\n", one.Partition, one.Offset, one.Value)
			values[string(one.Value)] = true
		case <-time.After(20 * time.Second):
			return
		}
	}
}

func refused(servers []string, topic string) {
	writer := &kafka.Writer{Addr: kafka.TCP(servers...), Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 5 * time.Millisecond}
	for n, delay := range []string{"soon", "1s"} {
		if err := writer.WriteMessages(context.Background(), message(strconv.Itoa(n), delay)); err != nil {
			fmt.Printf("failed %d %v\n", n, err)
		} else {
			fmt.Printf("acked %d -1\n", n)
		}
	}
	check(writer.Close())
}
