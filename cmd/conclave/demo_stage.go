package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"conclave/wire"
)

// stage is where a demo is played: processes of this machine, or containers. Names
// are those of ps: meta-1, data-2.
type stage interface {
	// Addresses lists where the nodes of a role say that they are, in the order of
	// their names; Network dials them, from where the demo's clients are.
	Addresses(role string) ([]string, error)
	Network() wire.Network
	// Token is what the cluster asks for; "" for nothing.
	Token() string
	// Kill ends a node as kill -9 does; Start brings it back.
	Kill(ctx context.Context, name string) error
	Start(ctx context.Context, name string) error
	// AwaitReady waits until every node is ready.
	AwaitReady(ctx context.Context) error
	// Stop ends everything gracefully, and fails when a process does not end with
	// exit code 0.
	Stop(ctx context.Context) error
	// Close ends what is left. When the demo did not succeed the logs are kept, and
	// it says where.
	Close(succeeded bool) string
	// Database names the one that is used; "" for the embedded one.
	Database() string
	// Tool is how somebody else asks this cluster meanwhile.
	Tool() string
}

// mortal is a stage whose Kill takes its time before anything dies: it knows when a
// node has.
type mortal interface {
	Died(ctx context.Context, name string) (time.Time, error)
}

// death is when a node died whose kill was asked for at began.
func death(ctx context.Context, s stage, name string, began time.Time) (time.Time, error) {
	if m, ok := s.(mortal); ok {
		return m.Died(ctx, name)
	}
	return began, nil
}

// address of one node.
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

// webClient asks nodes through a stage's network, and gives up on those that do not
// answer.
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
	*ownCluster
	root    string
	network wire.Network
	stopped bool
}

var _ stage = (*localStage)(nil)

func (a *app) localScenery() scenery {
	return scenery{
		title: "a service registry cluster, killed on purpose",
		more:  "Nine processes on this machine. A checker holds subscribers and judges every push.",
		each:  "a process of its own",
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
	own, err := startOwn(ctx, filepath.Join(root, "cluster"), nil)
	if err != nil {
		return nil, closeFolder(root, ctx.Err() != nil, err)
	}
	return &localStage{ownCluster: own, root: root, network: wire.NewTCP()}, nil
}

func (s *localStage) Network() wire.Network { return s.network }

func (s *localStage) Database() string { return "" }

func (s *localStage) Tool() string { return "conclave --dir " + s.Dir() }

func (s *localStage) Kill(ctx context.Context, name string) error {
	return s.ownCluster.Kill(ctx, name, syscall.SIGKILL)
}

func (s *localStage) Stop(context.Context) error {
	s.stopped = true
	if err := s.end(false); err != nil {
		return err
	}
	rows, err := s.Rows()
	for _, r := range rows {
		if r.State != "exited" || r.Code != 0 {
			err = errors.Join(err, fmt.Errorf("%s is %s with code %d %s", r.Name, r.State, r.Code, r.Signal))
		}
	}
	return err
}

func (s *localStage) Close(succeeded bool) string {
	if !s.stopped {
		_ = s.end(true) // why it is not stopped in its scene is the error that counts
	}
	if succeeded {
		_ = os.RemoveAll(s.root) // nothing in it is worth keeping
		return ""
	}
	return "; logs are in " + filepath.Join(s.Dir(), "logs")
}
