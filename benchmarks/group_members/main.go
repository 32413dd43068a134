// Members of Kafka's consumer groups, by franz-go, as many as are wanted in one process; benchmarks/groups.py
// builds and runs this program.
//
// What was seen is one line of JSON on stdout. Modes in which the caller does something meanwhile print a line
// before that, and go on when a line comes to stdin.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	mode       = flag.String("mode", "", "create | commits | join | kill | die | write | load")
	servers    = flag.String("servers", "", "host:port,... of brokers")
	processes  = flag.String("pids", "", "the processes whose processor time counts, with commas between")
	topic      = flag.String("topic", "", "")
	partitions = flag.Int("partitions", 1, "of the topic")
	replicas   = flag.Int("replicas", 1, "create: of the topic")
	prefix     = flag.String("group", "bench", "the beginning of the groups' names; a number follows")
	groups     = flag.Int("groups", 1, "")
	members    = flag.Int("members", 1, "of each group")
	rate       = flag.Int("rate", 1000, "commits: how many a second")
	seconds    = flag.Float64("seconds", 10, "how long to measure")
	session    = flag.Duration("session", 45*time.Second, "")
	heartbeat  = flag.Duration("heartbeat", 3*time.Second, "")
)

const patience = 60 * time.Second

func fail(about string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", about, err)
		os.Exit(1)
	}
}

// tell prints a line of JSON.
func tell(found map[string]any) {
	line, err := json.Marshal(found)
	fail("output", err)
	fmt.Println(string(line))
}

var input = bufio.NewReader(os.Stdin)

// hear waits for the caller's line.
func hear() {
	_, err := input.ReadString('\n')
	fail("the caller", err)
}

func seeds() kgo.Opt {
	return kgo.SeedBrokers(strings.Split(*servers, ",")...)
}

func groupName(number int) string {
	return fmt.Sprintf("%s-%d", *prefix, number)
}

// serverSeconds is the processor time of all servers so far.
func serverSeconds() float64 {
	total := 0.0
	for _, pid := range strings.Split(*processes, ",") {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // killed meanwhile, or none was named
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, field := range fields[11:13] {
			ticks, _ := strconv.ParseFloat(field, 64)
			total += ticks / 100
		}
	}
	return total
}

// busySeconds is the processor time of the whole machine so far.
func busySeconds() float64 {
	stat, err := os.ReadFile("/proc/stat")
	fail("/proc/stat", err)
	line, _, _ := strings.Cut(string(stat), "\n")
	total := 0.0
	for place, field := range strings.Fields(line)[1:9] {
		if place != 3 && place != 4 { // idle, and idle while a disk works
			ticks, _ := strconv.ParseFloat(field, 64)
			total += ticks / 100
		}
	}
	return total
}

// createTopic creates the topic with the servers' settings, and waits until each partition has a leader.
func createTopic() {
	client, err := kgo.NewClient(seeds(), kgo.MetadataMinAge(50*time.Millisecond))
	fail("create", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience) // a thousand partitions take a while
	defer cancel()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = *topic, int32(*partitions), int16(*replicas)
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 120_000
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(ctx, client)
	fail("create", err)
	fail("create", kerr.ErrorForCode(answer.Topics[0].ErrorCode))
	for ctx.Err() == nil && !hasLeaders(ctx, client) {
		time.Sleep(50 * time.Millisecond)
	}
	fail("create", ctx.Err())
	tell(map[string]any{"created": *topic})
}

func hasLeaders(ctx context.Context, client *kgo.Client) bool {
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = topic
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = append(request.Topics, asked)
	answer, err := request.RequestWith(ctx, client)
	if err != nil || len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != *partitions {
		return false
	}
	for _, partition := range answer.Topics[0].Partitions {
		if partition.ErrorCode != 0 || partition.Leader < 0 {
			return false
		}
	}
	return true
}

func main() {
	flag.Parse()
	modes := map[string]func(){
		"create": createTopic, "commits": commits, "join": join, "kill": coordinatorKilled, "die": memberDies,
		"write": writePositions, "load": loadPositions,
	}
	run, known := modes[*mode]
	if !known {
		fail("mode", fmt.Errorf("there is no %q", *mode))
	}
	run()
}
