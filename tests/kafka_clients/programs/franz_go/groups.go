package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What an administrator asks of groups. Prints a line for each step: OK or FAIL, its name, and what was answered.
func groups(ctx context.Context, servers, topic string) {
	group := "franz-go-admin"
	seeds := kgo.SeedBrokers(strings.Split(servers, ",")...)
	admin, err := kgo.NewClient(seeds)
	if err != nil {
		fail(err)
	}
	defer admin.Close()
	start := kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())
	member, err := kgo.NewClient(seeds, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), start)
	if err != nil {
		fail(err)
	}
	step := func(name string, call func() (any, error)) {
		found, err := call()
		if err != nil {
			fmt.Println("FAIL", name, err)
		} else {
			fmt.Println("OK", name, found)
		}
	}
	step("a member reads", func() (any, error) {
		fetches := member.PollFetches(ctx)
		return fetches.NumRecords(), fetches.Err()
	})
	step("commits", func() (any, error) { return nil, member.CommitUncommittedOffsets(ctx) })
	listed := func(wanted string) (any, error) {
		answer, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, admin)
		if err != nil {
			return nil, err
		}
		for _, each := range answer.Groups {
			if each.Group == group {
				if each.GroupState != wanted {
					return nil, fmt.Errorf("its state is %s", each.GroupState)
				}
				return each.ProtocolType, nil
			}
		}
		return nil, fmt.Errorf("%s is not among %d groups", group, len(answer.Groups))
	}
	described := func(state string, members int) (any, error) {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{group}
		answer, err := request.RequestWith(ctx, admin)
		if err != nil {
			return nil, err
		}
		found := answer.Groups[0]
		if found.State != state || len(found.Members) != members {
			return nil, fmt.Errorf("%s with %d members", found.State, len(found.Members))
		}
		return found.State, kerr.ErrorForCode(found.ErrorCode)
	}
	fetched := func() (any, error) {
		request := kmsg.NewPtrOffsetFetchRequest()
		of := kmsg.NewOffsetFetchRequestGroup()
		of.Group = group
		request.Groups = append(request.Groups, of)
		answer, err := request.RequestWith(ctx, admin)
		if err != nil {
			return nil, err
		}
		count := 0
		for _, each := range answer.Groups[0].Topics {
			count += len(each.Partitions)
		}
		return count, kerr.ErrorForCode(answer.Groups[0].ErrorCode)
	}
	offsetsDeleted := func() (any, error) {
		request := kmsg.NewPtrOffsetDeleteRequest()
		request.Group = group
		of := kmsg.NewOffsetDeleteRequestTopic()
		of.Topic = topic
		of.Partitions = append(of.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		request.Topics = append(request.Topics, of)
		answer, err := request.RequestWith(ctx, admin)
		if err != nil {
			return nil, err
		}
		if answer.ErrorCode != 0 {
			return nil, kerr.ErrorForCode(answer.ErrorCode)
		}
		return nil, kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	}
	deleted := func() (any, error) {
		request := kmsg.NewPtrDeleteGroupsRequest()
		request.Groups = []string{group}
		answer, err := request.RequestWith(ctx, admin)
		if err != nil {
			return nil, err
		}
		return nil, kerr.ErrorForCode(answer.Groups[0].ErrorCode)
	}
	refused := func(wanted error, call func() (any, error)) func() (any, error) {
		return func() (any, error) {
			if _, err := call(); err != wanted {
				return nil, fmt.Errorf("%v, where %v was to come", err, wanted)
			}
			return wanted, nil
		}
	}
	step("ListGroups, stable", func() (any, error) { return listed("Stable") })
	step("DescribeGroups, stable", func() (any, error) { return described("Stable", 1) })
	step("OffsetFetch of all", fetched)
	step("OffsetDelete of a topic that is read", refused(kerr.GroupSubscribedToTopic, offsetsDeleted))
	step("DeleteGroups with a member", refused(kerr.NonEmptyGroup, deleted))
	member.Close()
	step("ListGroups, empty", func() (any, error) { return listed("Empty") })
	step("DescribeGroups, empty", func() (any, error) { return described("Empty", 0) })
	step("OffsetDelete", offsetsDeleted)
	step("DeleteGroups", deleted)
	step("DeleteGroups of none", refused(kerr.GroupIDNotFound, deleted))
}
