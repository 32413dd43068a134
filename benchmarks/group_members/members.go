package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A network that can be cut for good: to the brokers its member has died, without a word of farewell.
type network struct {
	mu    sync.Mutex
	isCut bool
	open  []net.Conn
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	isCut := n.isCut
	n.mu.Unlock()
	if isCut {
		return nil, errors.New("the network is cut")
	}
	made, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, kind, address)
	if err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.isCut {
			made.Close()
			return nil, errors.New("the network is cut")
		}
		n.open = append(n.open, made)
	}
	return made, err
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = true
	for _, each := range n.open {
		each.Close()
	}
}

// A member consumes the topic in a group, with franz-go's own settings but for those of the command line, and
// commits nothing by itself.
type member struct {
	group   string
	client  *kgo.Client
	network network
	mu      sync.Mutex
	held    map[int32]bool
	gaveUp  int // partitions that were taken from it
}

func newMember(group string) *member {
	made := &member{group: group, held: map[int32]bool{}}
	client, err := kgo.NewClient(
		seeds(),
		kgo.Dialer(made.network.dial),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(*topic),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(*session),
		kgo.HeartbeatInterval(*heartbeat),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, taken map[string][]int32) {
			made.mu.Lock()
			defer made.mu.Unlock()
			for _, partition := range taken[*topic] {
				made.held[partition] = true
			}
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			made.lose(lost[*topic])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			made.lose(lost[*topic])
		}),
	)
	fail("a member", err)
	made.client = client
	go func() {
		for {
			if client.PollFetches(context.Background()).IsClientClosed() {
				return
			}
		}
	}()
	return made
}

func (m *member) lose(lost []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, partition := range lost {
		delete(m.held, partition)
	}
	m.gaveUp += len(lost)
}

// partitions returns what it holds now.
func (m *member) partitions() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	held := make([]int32, 0, len(m.held))
	for partition := range m.held {
		held = append(held, partition)
	}
	return held
}

func (m *member) lostSoFar() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gaveUp
}

func (m *member) generation() int32 {
	_, generation := m.client.GroupMetadata()
	return generation
}

// commit commits an offset of one partition, as the member that it is.
func (m *member) commit(ctx context.Context, partition int32, offset int64) error {
	id, generation := m.client.GroupMetadata()
	one := kmsg.NewOffsetCommitRequestTopicPartition()
	one.Partition, one.Offset = partition, offset
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic = *topic
	of.Partitions = append(of.Partitions, one)
	request := kmsg.NewPtrOffsetCommitRequest()
	request.Group, request.MemberID, request.Generation = m.group, id, generation
	request.Topics = append(request.Topics, of)
	answer, err := request.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}

// beat sends one heartbeat more than franz-go does by itself.
func (m *member) beat(ctx context.Context) error {
	id, generation := m.client.GroupMetadata()
	request := kmsg.NewPtrHeartbeatRequest()
	request.Group, request.MemberID, request.Generation = m.group, id, generation
	answer, err := request.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.ErrorCode)
}

// allMembers starts all members of all groups, group by group.
func allMembers() [][]*member {
	every := make([][]*member, *groups)
	for number := range every {
		for range *members {
			every[number] = append(every[number], newMember(groupName(number)))
		}
	}
	return every
}

// isShared says whether these members hold all partitions, each one once, and none of them goes without, where
// there are enough.
func isShared(living []*member) bool {
	seen := map[int32]bool{}
	count := 0
	for _, each := range living {
		held := each.partitions()
		if len(held) == 0 && len(living) <= *partitions {
			return false
		}
		count += len(held)
		for _, partition := range held {
			seen[partition] = true
		}
	}
	return count == *partitions && len(seen) == *partitions
}

// awaitShared returns when all groups are shared, and how long that took.
func awaitShared(every [][]*member, since time.Time) float64 {
	waiting := append([][]*member{}, every...)
	for time.Since(since) < patience {
		left := waiting[:0]
		for _, living := range waiting {
			if !isShared(living) {
				left = append(left, living)
			}
		}
		waiting = left
		if len(waiting) == 0 {
			return time.Since(since).Seconds()
		}
		time.Sleep(5 * time.Millisecond)
	}
	fail("groups", fmt.Errorf("%d of %d are not shared after %v", len(waiting), len(every), patience))
	return 0
}

// leave takes all members out of their groups, with one request for each group: what is left of them would be
// work of the coordinators in the next run. A coordinator that has more commits waiting than it can take may not
// answer in time: the figures are measured by then, and its members expire.
func leave(every [][]*member) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all sync.WaitGroup
	var refused atomic.Int64
	for _, living := range every {
		all.Add(1)
		go func() {
			defer all.Done()
			request := kmsg.NewPtrLeaveGroupRequest()
			request.Group = living[0].group
			for _, each := range living {
				one := kmsg.NewLeaveGroupRequestMember()
				one.MemberID, _ = each.client.GroupMetadata()
				request.Members = append(request.Members, one)
			}
			if _, err := request.RequestWith(ctx, living[0].client); err != nil {
				refused.Add(1)
			}
		}()
	}
	all.Wait()
	if refused.Load() > 0 {
		fmt.Fprintf(os.Stderr, "leave: %d groups were not left: their members expire\n", refused.Load())
	}
}
