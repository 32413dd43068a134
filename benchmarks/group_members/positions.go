package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	positionsARequest = 500
	groupsARequest    = 100
	writers           = 8
	askAgain          = 5 * time.Millisecond
)

// writePositions commits an offset of each partition in each group, as a client without a group's generation.
func writePositions() {
	client, err := kgo.NewClient(seeds())
	fail("write", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	numbers := make(chan int)
	var all sync.WaitGroup
	measured := newMeter()
	for range writers {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := range numbers {
				for first := 0; first < *partitions; first += positionsARequest {
					last := min(first+positionsARequest, *partitions)
					fail("write", commitRange(ctx, client, groupName(number), first, last))
				}
			}
		}()
	}
	for number := range *groups {
		numbers <- number
	}
	close(numbers)
	all.Wait()
	found := map[string]any{"n": *groups * *partitions}
	measured.stop(found, *groups**partitions)
	tell(found)
}

func commitRange(ctx context.Context, client *kgo.Client, group string, first, last int) error {
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic = *topic
	for partition := first; partition < last; partition++ {
		one := kmsg.NewOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset = int32(partition), int64(partition)
		of.Partitions = append(of.Partitions, one)
	}
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.Generation = group, -1
	request.Topics = append(request.Topics, of)
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, each := range answer.Topics[0].Partitions {
		if err := kerr.ErrorForCode(each.ErrorCode); err != nil {
			return fmt.Errorf("%s/%d: %w", *topic, each.Partition, err)
		}
	}
	return nil
}

// loadPositions waits for a broker that starts, and tells how long after its first answer it knows the offsets of
// all groups.
func loadPositions() {
	client, err := kgo.NewClient(
		seeds(),
		kgo.DialTimeout(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return askAgain }),
		kgo.RequestRetries(1_000_000),
		kgo.RetryTimeout(patience),
		kgo.MetadataMinAge(50*time.Millisecond),
	)
	fail("load", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	began := time.Now()
	for client.Ping(ctx) != nil {
		fail("load", ctx.Err())
		time.Sleep(askAgain)
	}
	answered := time.Now()
	for first := 0; first < *groups; first += groupsARequest {
		var missing []string
		for number := first; number < min(first+groupsARequest, *groups); number++ {
			missing = append(missing, groupName(number))
		}
		for len(missing) > 0 {
			for len(withoutOffset(ctx, client, missing[:1])) > 0 {
				fail("load", ctx.Err())
				time.Sleep(askAgain)
			}
			missing = withoutOffset(ctx, client, missing)
		}
	}
	tell(map[string]any{
		"load_s": time.Since(answered).Seconds(), "first_answer_s": answered.Sub(began).Seconds(),
		"whole_s": time.Since(began).Seconds(),
	})
}

// withoutOffset asks for the last partition's offset in each group, and returns the groups that have none yet.
func withoutOffset(ctx context.Context, client *kgo.Client, names []string) []string {
	last := int32(*partitions - 1)
	of := kmsg.NewOffsetFetchRequestGroupTopic()
	of.Topic, of.Partitions = *topic, []int32{last}
	request := kmsg.NewPtrOffsetFetchRequest()
	for _, name := range names {
		one := kmsg.NewOffsetFetchRequestGroup()
		one.Group = name
		one.Topics = append(one.Topics, of)
		request.Groups = append(request.Groups, one)
	}
	answer, err := request.RequestWith(ctx, client)
	if err != nil {
		return names
	}
	var missing []string
	for _, each := range answer.Groups {
		if each.ErrorCode != 0 || len(each.Topics) == 0 || each.Topics[0].Partitions[0].Offset != int64(last) {
			missing = append(missing, each.Group)
		}
	}
	return missing
}
