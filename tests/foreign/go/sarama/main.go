// Sarama: see ../../programs.py for what a program is asked.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
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

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Retry.Max = 20
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func message(topic string, value string, delay string) *sarama.ProducerMessage {
	one := &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder(value), Value: sarama.StringEncoder(value), Metadata: value}
	if delay != "" {
		one.Headers = []sarama.RecordHeader{{Key: []byte("delay"), Value: []byte(delay)}}
	}
	return one
}

func produce(servers []string, topic string, count int) {
	producer, err := sarama.NewAsyncProducer(servers, settings())
	check(err)
	go func() {
		for n := range count {
			delay := ""
			if n%3 == 0 {
				delay = "1s"
			}
			producer.Input() <- message(topic, strconv.Itoa(n), delay)
		}
	}()
	for range count {
		select {
		case done := <-producer.Successes():
			fmt.Printf("acked %v %d\n", done.Metadata, done.Offset)
		case failed := <-producer.Errors():
			fmt.Printf("failed %v %v\n", failed.Msg.Metadata, failed.Err)
		}
	}
	producer.AsyncClose()
}

func consume(servers []string, topic string, count int) {
	consumer, err := sarama.NewConsumer(servers, settings())
	check(err)
	partitions, err := consumer.Partitions(topic)
	check(err)
	messages := make(chan *sarama.ConsumerMessage, 100)
	var reading sync.WaitGroup
	for _, partition := range partitions {
		one, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		check(err)
		reading.Add(1)
		go func() {
			defer reading.Done()
			for message := range one.Messages() {
				messages <- message
			}
		}()
	}
	for found := 0; found < count; found++ {
		select {
		case one := <-messages:
			fmt.Printf("read %d %d %s\n", one.Partition, one.Offset, one.Value)
		case <-time.After(20 * time.Second):
			return
		}
	}
}

func refused(servers []string, topic string) {
	producer, err := sarama.NewSyncProducer(servers, settings())
	check(err)
	for n, delay := range []string{"soon", "1s"} {
		if _, offset, err := producer.SendMessage(message(topic, strconv.Itoa(n), delay)); err != nil {
			fmt.Printf("failed %d %v\n", n, err)
		} else {
			fmt.Printf("acked %d %d\n", n, offset)
		}
	}
}
