// franz-go.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Record `number` of a producer: README.md says the rule.
func record(topic, name string, number int, kind string) *kgo.Record {
	text := fmt.Sprintf("%s-%d", name, number)
	hasKey := number%3 != 2
	made := &kgo.Record{Topic: topic, Partition: 0, Value: []byte{}}
	if hasKey {
		made.Key = []byte(text)
	}
	if number%11 != 10 {
		made.Value = append([]byte(text), '-')
		for each := 0; each < 256; each++ {
			made.Value = append(made.Value, byte(each))
		}
	}
	if kind == "plain" {
		return made
	}
	if hasKey && number%10 == 9 {
		made.Key = []byte{}
	}
	if hasKey && number%7 == 6 {
		made.Value = nil
	}
	made.Headers = []kgo.RecordHeader{
		{Key: "h", Value: []byte(strconv.Itoa(number))},
		{Key: "h", Value: []byte{0xff, 0}},
	}
	if kind == "all" {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: "null", Value: nil})
	}
	return made
}

func produce(ctx context.Context, servers, topic, codec string, count int, name string, kind string) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	records := make([]*kgo.Record, count)
	for number := range records {
		records[number] = record(topic, name, number, kind)
	}
	results := client.ProduceSync(ctx, records...)
	if err := results.FirstErr(); err != nil {
		fail(err)
	}
	offsets := make([]int64, count)
	for number, record := range records {
		offsets[number] = record.Offset
	}
	json.NewEncoder(os.Stdout).Encode(offsets)
}

func now() float64 {
	return float64(time.Now().UnixMicro()) / 1e6
}

func steady(servers, topic string, seconds float64, metadataMinAge string) {
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(servers, ",")...)}
	if age, err := time.ParseDuration(metadataMinAge); err == nil {
		options = append(options, kgo.MetadataMinAge(age))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	out := json.NewEncoder(os.Stdout)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for time.Now().Before(end) {
		sent := now()
		record := &kgo.Record{Topic: topic, Value: []byte(strings.Repeat("x", 100))}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err == nil {
				out.Encode([]float64{sent, now()})
			}
		})
		time.Sleep(10 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	client.Flush(ctx)
}

func hexOf(content []byte) any {
	if content == nil {
		return nil
	}
	return hex.EncodeToString(content)
}

func consume(ctx context.Context, servers, topic string, count int) {
	start := kgo.NewOffset().AtStart()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: start}}),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	out := json.NewEncoder(os.Stdout)
	for taken := 0; taken < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			fail(fmt.Errorf("after %d records: %w", taken, err))
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if taken == count {
				return
			}
			headers := [][]any{}
			for _, header := range record.Headers {
				headers = append(headers, []any{header.Key, hexOf(header.Value)})
			}
			out.Encode([]any{record.Offset, hexOf(record.Key), hexOf(record.Value), headers})
			taken++
		})
	}
}

func share(servers, topic, group, instance string) {
	out := json.NewEncoder(os.Stdout)
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			numbers := append([]int32{}, assigned[topic]...)
			sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
			out.Encode([]any{"assigned", numbers})
		}),
	}
	if instance != "" {
		options = append(options, kgo.InstanceID(instance), kgo.SessionTimeout(30*time.Second))
	} else {
		options = append(options, kgo.SessionTimeout(10*time.Second))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		fetches.EachRecord(func(record *kgo.Record) {
			out.Encode([]any{"record", record.Partition, record.Offset})
		})
		if fetches.NumRecords() == 0 {
			continue
		}
		if client.CommitUncommittedOffsets(context.Background()) != nil {
			continue // the group gathers its members
		}
		committed := [][]int64{}
		for partition, position := range client.CommittedOffsets()[topic] {
			committed = append(committed, []int64{int64(partition), position.Offset})
		}
		out.Encode([]any{"committed", committed})
	}
	client.Close()
}

func introduce(ctx context.Context, servers, topic, group string, count int) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(servers, ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
	)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	out := json.NewEncoder(os.Stdout)
	for taken := 0; taken < count; {
		fetches := client.PollRecords(ctx, count-taken)
		if err := fetches.Err(); err != nil {
			fail(fmt.Errorf("after %d records: %w", taken, err))
		}
		fetches.EachRecord(func(record *kgo.Record) {
			out.Encode([]any{record.Partition, record.Offset})
			taken++
		})
	}
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		fail(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	arguments := os.Args
	if arguments[1] == "share" {
		share(arguments[2], arguments[3], arguments[4], arguments[5])
	} else if arguments[1] == "introduce" {
		count, _ := strconv.Atoi(arguments[5])
		introduce(ctx, arguments[2], arguments[3], arguments[4], count)
	} else if arguments[1] == "groups" {
		groups(ctx, arguments[2], arguments[3])
	} else if arguments[1] == "steady" {
		seconds, _ := strconv.ParseFloat(arguments[4], 64)
		metadataMinAge := ""
		if len(arguments) > 5 {
			metadataMinAge = arguments[5]
		}
		steady(arguments[2], arguments[3], seconds, metadataMinAge)
	} else if arguments[1] == "produce" {
		count, _ := strconv.Atoi(arguments[5])
		produce(ctx, arguments[2], arguments[3], arguments[4], count, arguments[6], arguments[7])
	} else {
		count, _ := strconv.Atoi(arguments[4])
		consume(ctx, arguments[2], arguments[3], count)
	}
}
