package main

import (
	"context"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"conclave/testbed"
	"conclave/testbed/local"
	"conclave/testbed/soak"
)

// The size of the cluster, as in the demo.
const (
	soakMetas    = 3
	soakSessions = 2
	soakDatas    = 3
	soakSlots    = 256
	soakReplicas = 2
	soakLease    = 3 * time.Second
)

func soakCluster(takeover string, seed uint64) testbed.Size {
	return testbed.Size{
		Metas: soakMetas, Sessions: soakSessions, Datas: soakDatas, Slots: soakSlots, Replicas: soakReplicas,
		Takeover: takeover, Lease: soakLease, Seed: seed,
	}
}

// localSoak is a soak.Cluster of processes.
type localSoak struct {
	*local.Cluster
	size   testbed.Size
	dialer net.Dialer

	doing sync.Mutex // a driver executes one action at a time
}

var _ soak.Cluster = (*localSoak)(nil)

func newLocalSoak(bin, dir string, size testbed.Size) *localSoak {
	return &localSoak{Cluster: local.New(local.Config{Bin: bin, Dir: dir, NoEvents: true}), size: size}
}

func (s *localSoak) Open(ctx context.Context) error { return s.Cluster.Open(ctx, s.size, nil) }

// act converts a fault to an action of package testbed.
func act(f soak.Fault) testbed.Action {
	return testbed.Action{Verb: testbed.Verb(f.Act), Node: f.Node, Peer: f.Peer, By: f.By}
}

func (s *localSoak) Do(ctx context.Context, f soak.Fault) error {
	s.doing.Lock()
	defer s.doing.Unlock()
	return s.Cluster.Do(ctx, act(f))
}

func (s *localSoak) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return s.dialer.DialContext(ctx, network, address)
}

func (s *localSoak) Client(host string) (soak.ClientConfig, error) { return s.ClientConfig(host) }

func (s *localSoak) Token() string { return "" }

func (s *localSoak) Processes(context.Context) ([]soak.Process, error) {
	rows, err := s.Rows()
	var out []soak.Process
	for _, p := range rows {
		out = append(out, soak.Process{Name: p.Name, PID: p.PID, Running: p.PID > 0, Code: p.Code, Signal: p.Signal, RSS: resident(p.PID)})
	}
	return out, err
}

func (s *localSoak) LogFiles(context.Context) (map[string]string, error) {
	rows, err := s.Rows()
	files := map[string]string{}
	for _, p := range rows {
		files[p.Name] = s.LogPath(p.Name)
	}
	return files, err
}

// resident returns the resident memory of a process in bytes; 0 without /proc.
func resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
