package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	commitPause = 20 * time.Millisecond
	beatPause   = 200 * time.Millisecond
)

// A trail has the moments in which one kind of requests of a member was sent and answered.
type trail struct {
	mu         sync.Mutex
	last       int64 // the greatest acknowledged offset; commits alone
	succeeded  []span
	complaints map[string]int
}

type span struct{ sent, answered time.Time }

func (t *trail) note(sent time.Time, offset int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.complaints[err.Error()]++
		return
	}
	t.last = max(t.last, offset)
	t.succeeded = append(t.succeeded, span{sent, time.Now()})
}

// firstAfter is how long after a moment the first request is answered that was sent then or later.
func (t *trail) firstAfter(moment time.Time) (float64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, each := range t.succeeded {
		if !each.sent.Before(moment) {
			return each.answered.Sub(moment).Seconds(), true
		}
	}
	return math.Inf(1), false
}

func newTrail() *trail {
	return &trail{complaints: map[string]int{}}
}

// steadily sends requests one after the other until the end.
func steadily(ctx context.Context, kept *trail, pause time.Duration, send func(offset int64) error) {
	for offset := int64(1); ctx.Err() == nil; offset++ {
		sent := time.Now()
		err := send(offset)
		if ctx.Err() == nil {
			kept.note(sent, offset, err)
		}
		time.Sleep(pause)
	}
}

func coordinatorOf(ctx context.Context, each *member) int32 {
	request := kmsg.NewPtrFindCoordinatorRequest()
	request.CoordinatorKeys = []string{each.group}
	answer, err := request.RequestWith(ctx, each.client)
	fail("the coordinator", err)
	fail("the coordinator", kerr.ErrorForCode(answer.Coordinators[0].ErrorCode))
	return answer.Coordinators[0].NodeID
}

// committed is the offset that the group has in a partition.
func committed(ctx context.Context, each *member, partition int32) int64 {
	of := kmsg.NewOffsetFetchRequestGroupTopic()
	of.Topic, of.Partitions = *topic, []int32{partition}
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = each.group
	one.Topics = append(one.Topics, of)
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Groups = append(request.Groups, one)
	answer, err := request.RequestWith(ctx, each.client)
	fail("fetch of offsets", err)
	fail("fetch of offsets", kerr.ErrorForCode(answer.Groups[0].ErrorCode))
	return answer.Groups[0].Topics[0].Partitions[0].Offset
}

// coordinatorKilled has the members of one group commit and send heartbeats all the time, while the caller kills
// their coordinator: when goes each of them on, do they keep their partitions, is each acknowledged commit there.
func coordinatorKilled() {
	living := allMembers()[0]
	awaitShared([][]*member{living}, time.Now())
	ctx, cancel := context.WithCancel(context.Background())
	generations, gaveUp := []int32{}, 0
	commitTrails, beatTrails := []*trail{}, []*trail{}
	owned := []int32{}
	for _, each := range living {
		partition := each.partitions()[0]
		made, beaten := newTrail(), newTrail()
		generations, owned = append(generations, each.generation()), append(owned, partition)
		commitTrails, beatTrails = append(commitTrails, made), append(beatTrails, beaten)
		gaveUp -= each.lostSoFar()
		go steadily(ctx, made, commitPause, func(offset int64) error { return each.commit(ctx, partition, offset) })
		go steadily(ctx, beaten, beatPause, func(int64) error { return each.beat(ctx) })
	}
	time.Sleep(2 * time.Second)
	tell(map[string]any{"coordinator": coordinatorOf(ctx, living[0])})
	hear()
	killed := time.Now()
	found := map[string]any{
		"commits_s": slowest(commitTrails, killed), "heartbeats_s": slowest(beatTrails, killed),
	}
	time.Sleep(time.Duration(*seconds * float64(time.Second)))
	cancel()
	lost, rebalances := 0, int32(0)
	for number, each := range living {
		asking, done := context.WithTimeout(context.Background(), 20*time.Second)
		if committed(asking, each, owned[number]) < commitTrails[number].last {
			lost++
		}
		done()
		rebalances = max(rebalances, each.generation()-generations[number])
		gaveUp += each.lostSoFar()
	}
	found["lost"], found["rebalances"], found["gave_up"] = lost, rebalances, gaveUp
	found["commit_errors"], found["heartbeat_errors"] = complaints(commitTrails), complaints(beatTrails)
	leave([][]*member{living})
	tell(found)
}

// slowest waits until all have gone on after a moment, and returns how long the last one took.
func slowest(trails []*trail, moment time.Time) float64 {
	most := 0.0
	for _, each := range trails {
		for {
			took, went := each.firstAfter(moment)
			if went {
				most = max(most, took)
				break
			}
			if time.Since(moment) > patience {
				fail("a member", fmt.Errorf("it has not gone on after %v: %v", patience, complaints(trails)))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return most
}

func complaints(trails []*trail) map[string]int {
	all := map[string]int{}
	for _, each := range trails {
		each.mu.Lock()
		for text, count := range each.complaints {
			all[text] += count
		}
		each.mu.Unlock()
	}
	return all
}

// memberDies cuts one member of a group off: how long until the others hold its partitions, and how many
// partitions the others had to give up for it.
func memberDies() {
	living := allMembers()[0]
	awaitShared([][]*member{living}, time.Now())
	time.Sleep(2 * *heartbeat)
	before := 0
	others := living[1:]
	for _, each := range others {
		before += each.lostSoFar()
	}
	died := time.Now()
	living[0].network.cut()
	took := awaitShared([][]*member{others}, died)
	time.Sleep(4 * *heartbeat) // a rebalance of cooperative members has a second half
	after := 0
	for _, each := range others {
		after += each.lostSoFar()
	}
	found := map[string]any{"shared_s": took, "gave_up": after - before}
	leave([][]*member{others})
	tell(found)
}
