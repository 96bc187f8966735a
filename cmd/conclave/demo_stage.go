package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"conclave/testbed"
	"conclave/wire"
)

// stage is the cluster of a demo: processes of this machine or containers.
// Names are those of ps: meta-1, data-2.
type stage interface {
	// Addresses returns the advertised addresses of the nodes of a role, in the
	// order of their names. The demo's clients dial them through Network.
	Addresses(role string) ([]string, error)
	Network() wire.Network
	// Token returns the token that the cluster requires, "" if none.
	Token() string
	// Kill ends a node like kill -9; Start starts it again.
	Kill(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
	// Died returns when a node ended whose kill began at began. An engine's Kill
	// returns long after that.
	Died(ctx context.Context, name string, began time.Time) (time.Time, error)
	// AwaitReady waits until every node is ready.
	AwaitReady(ctx context.Context) error
	// Stop stops the cluster gracefully. It fails if a process does not end
	// with exit code 0.
	Stop(ctx context.Context) error
	// Close ends what is left. If the demo did not succeed, Close keeps the
	// logs and returns where they are.
	Close(succeeded bool) string
	// Database returns the name of the database, "" for the embedded one.
	Database() string
	// Tool returns the command with which a user can query this cluster.
	Tool() string
}

// address returns the address of one node.
func address(s stage, role, name string) (string, error) {
	all, err := s.Addresses(role)
	if err != nil {
		return "", err
	}
	var i int
	if _, err := fmt.Sscanf(name, role+"-%d", &i); err != nil || i < 1 || i > len(all) {
		return "", fmt.Errorf("none of the %d nodes of role %s is %q", len(all), role, name)
	}
	return all[i-1], nil
}

// webClient returns an HTTP client with short timeouts that uses a stage's
// network.
func webClient(n wire.Network) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return n.DialContext(ctx, network, address)
		},
		ResponseHeaderTimeout: 10 * time.Second,
	}}
}

// localStage is a cluster of processes in a temporary folder.
type localStage struct {
	own     *ownCluster
	root    string
	network wire.Network
	stopped bool
}

var _ stage = (*localStage)(nil)

func (a *app) localScenery() scenery {
	return scenery{
		title: "a service registry cluster, killed on purpose",
		more:  "Nine processes on this machine. Subscribers check every push.",
		each:  "a separate process",
		open:  openLocal,
		scenes: func(d *demo) []func(context.Context) error {
			return []func(context.Context) error{d.killLeader, d.drainData, d.killData, d.killSession}
		},
	}
}

func openLocal(ctx context.Context) (stage, error) {
	root, err := os.MkdirTemp("", "conclave-demo-")
	if err != nil {
		return nil, err
	}
	own, err := startOwn(ctx, filepath.Join(root, "cluster"))
	if err != nil {
		return nil, closeFolder(root, ctx.Err() != nil, err)
	}
	return &localStage{own: own, root: root, network: wire.NewTCP()}, nil
}

func (s *localStage) Network() wire.Network { return s.network }

func (s *localStage) Database() string { return "" }

func (s *localStage) Tool() string { return program() + " --dir " + s.own.Supervisor().Dir() }

func (s *localStage) Token() string { return s.own.Token() }

func (s *localStage) Addresses(role string) ([]string, error) {
	return s.own.Supervisor().Addresses(role)
}

func (s *localStage) AwaitReady(ctx context.Context) error { return s.own.AwaitReady(ctx) }

func (s *localStage) Kill(ctx context.Context, name string) error {
	return s.own.Do(ctx, testbed.Action{Verb: testbed.Kill, Node: name})
}

func (s *localStage) Start(ctx context.Context, name string) error {
	return s.own.Do(ctx, testbed.Action{Verb: testbed.Start, Node: name})
}

func (s *localStage) Died(_ context.Context, _ string, began time.Time) (time.Time, error) {
	return began, nil
}

func (s *localStage) Stop(ctx context.Context) error {
	s.stopped = true
	if err := s.own.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	rows, err := s.own.Supervisor().Rows()
	for _, r := range rows {
		if r.State != "exited" || r.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%s is %s with code %d %s", r.Name, r.State, r.Code, r.Signal))
		}
	}
	return err
}

func (s *localStage) Close(succeeded bool) string {
	if !s.stopped {
		_ = s.own.Close(context.Background()) // the error of the scene is reported instead
	}
	if succeeded {
		_ = os.RemoveAll(s.root) // nothing in it is needed any more
		return ""
	}
	return "; logs are in " + filepath.Join(s.own.Supervisor().Dir(), "logs")
}
