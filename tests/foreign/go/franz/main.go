// franz-go: see ../../programs.py for what a program is asked.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
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

func client(servers []string, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(servers...), kgo.RecordDeliveryTimeout(60 * time.Second)}, more...)...)
	check(err)
	return made
}

func record(topic string, value string, delay string) *kgo.Record {
	one := &kgo.Record{Topic: topic, Key: []byte(value), Value: []byte(value)}
	if delay != "" {
		one.Headers = []kgo.RecordHeader{{Key: "delay", Value: []byte(delay)}}
	}
	return one
}

func produce(servers []string, topic string, count int) {
	kafka := client(servers)
	defer kafka.Close()
	var waiting sync.WaitGroup
	var printing sync.Mutex
	for n := range count {
		delay := ""
		if n%3 == 0 {
			delay = "1s"
		}
		waiting.Add(1)
		kafka.Produce(context.Background(), record(topic, strconv.Itoa(n), delay), func(r *kgo.Record, err error) {
			defer waiting.Done()
			printing.Lock()
			defer printing.Unlock()
			if err != nil {
				fmt.Printf("failed %d %v\n", n, err)
			} else {
				fmt.Printf("acked %d %d\n", n, r.Offset)
			}
		})
	}
	waiting.Wait()
}

func consume(servers []string, topic string, count int) {
	kafka := client(servers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer kafka.Close()
	for found := 0; found < count; {
		patience, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		fetches := kafka.PollFetches(patience)
		cancel()
		if fetches.NumRecords() == 0 {
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			fmt.Printf("read %d %d %s\n", r.Partition, r.Offset, r.Value)
			found++
		})
	}
}

func refused(servers []string, topic string) {
	kafka := client(servers)
	defer kafka.Close()
	if err := kafka.ProduceSync(context.Background(), record(topic, "bad", "soon")).FirstErr(); err != nil {
		fmt.Printf("failed 0 %v\n", err)
	} else {
		fmt.Println("acked 0 -1")
	}
	if err := kafka.ProduceSync(context.Background(), record(topic, "good", "1s")).FirstErr(); err != nil {
		fmt.Printf("failed 1 %v\n", err)
	} else {
		fmt.Println("acked 1 -1")
	}
}
