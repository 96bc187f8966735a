package main

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"conclave/testbed"
	"conclave/testbed/containers"
	"conclave/testbed/soak"
)

// composeSoak is a soak.Cluster of containers.
type composeSoak struct {
	*containers.Cluster
	stage *composeStage // set by Open
	size  testbed.Size
	logs  string

	doing sync.Mutex // a driver executes one action at a time

	logged time.Time // the time until which the containers' logs were read
}

var _ soak.Cluster = (*composeSoak)(nil)

func newComposeSoak(dir string, size testbed.Size, o composeOptions) *composeSoak {
	s := &composeSoak{size: size, logs: filepath.Join(dir, "logs")}
	if o.logs != "" {
		s.logs = o.logs
	}
	cfg := containersConfig(dir, s.logs, o, &s.stage)
	cfg.NoEvents = true
	s.Cluster = containers.New(cfg)
	return s
}

func (s *composeSoak) Open(ctx context.Context) error { return s.Cluster.Open(ctx, s.size, nil) }

func (s *composeSoak) Do(ctx context.Context, f soak.Fault) error {
	s.doing.Lock()
	defer s.doing.Unlock()
	return s.Cluster.Do(ctx, act(f))
}

func (s *composeSoak) Client(host string) (soak.ClientConfig, error) {
	return s.ClientConfig(host), nil
}

func (s *composeSoak) Token() string { return s.stage.token }

// Processes returns what the engine reports. Memory is only known if the
// engine's processes run on this machine.
func (s *composeSoak) Processes(ctx context.Context) ([]soak.Process, error) {
	all, err := s.stage.Containers(ctx)
	var out []soak.Process
	for _, c := range all {
		p := soak.Process{Name: c.Service, PID: c.PID, Running: c.State == "running" || c.State == "paused", Code: c.ExitCode, RSS: resident(c.PID)}
		if killed := c.ExitCode - 128; !p.Running && killed > 0 { // 128 + the signal that ended it
			p.Code, p.Signal = 0, syscall.Signal(killed).String()
		}
		out = append(out, p)
	}
	return out, err
}

// LogFiles copies what the containers have written since the last call.
func (s *composeSoak) LogFiles(ctx context.Context) (map[string]string, error) {
	from := s.logged
	s.logged = time.Now()
	files := map[string]string{}
	for name := range s.Addresses() {
		text, err := s.stage.Logs(ctx, name, from)
		if err != nil {
			return nil, err
		}
		files[name] = filepath.Join(s.logs, name+".soak.log")
		f, err := os.OpenFile(files[name], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		_, err = f.WriteString(text)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Stop stops the containers in order. Processes then returns how each has
// ended.
func (s *composeSoak) Stop(ctx context.Context) error { return s.stage.Stop(ctx) }
