package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"syscall"
	"time"
)

const mostUnderWay = 20_000

func ownSeconds() float64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// A meter measures processor time from its beginning on.
type meter struct {
	began               time.Time
	servers, own, whole float64
}

func newMeter() meter {
	return meter{time.Now(), serverSeconds(), ownSeconds(), busySeconds()}
}

// stop adds what was measured, for each of `count` pieces of work.
func (m meter) stop(found map[string]any, count int) {
	took := time.Since(m.began).Seconds()
	servers, own, whole := serverSeconds()-m.servers, ownSeconds()-m.own, busySeconds()-m.whole
	found["seconds"] = took
	found["server_us"] = servers / float64(count) * 1e6
	found["client_us"] = own / float64(count) * 1e6
	found["server_percent"] = servers / took * 100
	found["other_cpus"] = (whole - servers - own) / took
}

// commits sends commits at a steady rate, the groups in turn, after one second that doesn't count. The latency
// of a commit counts from the moment in which it was due. Refused ones are counted apart.
func commits() {
	every := allMembers()
	awaitShared(every, time.Now())
	warm := *rate
	count := int(float64(*rate) * *seconds)
	latencies := make([]float64, count)
	refusedOne := make([]bool, count)
	var underWay sync.WaitGroup
	room := make(chan struct{}, mostUnderWay)
	var measured meter
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(*seconds)*time.Second+patience)
	defer cancel()
	began := time.Now()
	for number := range warm + count {
		due := began.Add(time.Duration(float64(number) / float64(*rate) * 1e9))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if number == warm {
			measured = newMeter()
		}
		living := every[number%len(every)]
		each := living[number/len(every)%len(living)]
		room <- struct{}{}
		underWay.Add(1)
		go func() {
			defer underWay.Done()
			partition := int32(number / len(every) % *partitions)
			err := each.commit(ctx, partition, int64(number))
			if number >= warm {
				latencies[number-warm] = time.Since(due).Seconds()
				refusedOne[number-warm] = err != nil
			}
			<-room
		}()
	}
	underWay.Wait()
	acknowledged := make([]float64, 0, count)
	for number, latency := range latencies {
		if !refusedOne[number] {
			acknowledged = append(acknowledged, latency)
		}
	}
	done := len(acknowledged)
	if done == 0 {
		fail("commit", fmt.Errorf("all %d commits were refused", count))
	}
	found := map[string]any{"n": done, "refused": count - done}
	measured.stop(found, done)
	found["rate"] = float64(done) / found["seconds"].(float64)
	sort.Float64s(acknowledged)
	for name, share := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1} {
		found[name] = acknowledged[min(int(share*float64(done)), done-1)] * 1e3
	}
	leave(every)
	tell(found)
}

// join starts members, and tells how long it takes until all groups are shared; then what the servers take
// while nothing happens, beside what they took before.
func join() {
	found := map[string]any{}
	if *seconds > 0 {
		alone := newMeter()
		time.Sleep(time.Duration(*seconds * float64(time.Second)))
		before := map[string]any{}
		alone.stop(before, 1)
		found["before_percent"] = before["server_percent"]
	}
	joining := newMeter()
	every := allMembers()
	shared := awaitShared(every, joining.began)
	joining.stop(found, *groups**members)
	found["shared_s"], found["join_us"] = shared, found["server_us"]
	if *seconds > 0 {
		time.Sleep(2 * *heartbeat)
		idle := newMeter()
		time.Sleep(time.Duration(*seconds * float64(time.Second)))
		idle.stop(found, 1)
	}
	leave(every)
	tell(found)
}
