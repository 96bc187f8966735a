package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"conclave/chaos"
	"conclave/chaos/containers"
	"conclave/chaos/processes"
	"conclave/internal/compose"
)

// can says whether a verb is possible on that stage.
func can(on string, v chaos.Verb) bool {
	if on == "compose" {
		return containers.Can(v)
	}
	return processes.Can(v)
}

// playChaos plays one run on a cluster of its own, or on the one of --dir. What
// the processes wrote is kept when something did not hold.
func (a *app) playChaos(ctx context.Context, s chaos.Scenario, attach bool, o chaosOptions) (*chaos.Result, error) {
	dir, err := os.MkdirTemp("", "conclave-chaos-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(dir) // if nothing is in it
	logs := filepath.Join(dir, "cluster", "logs")
	var d chaos.Driver
	switch {
	case o.on == "compose":
		if o.compose.logs == "" {
			o.compose.logs = logs
		}
		logs = o.compose.logs
		d = a.containersDriver(o)
	case attach:
		nodes, err := a.local()
		if err != nil {
			return nil, err
		}
		logs = filepath.Join(nodes.Dir(), "logs")
		running, err := processes.Attach(nodes, dir)
		if err != nil {
			return nil, err
		}
		d, s.Cluster = running, running.Size(s.Cluster)
	default:
		_, bin, err := toolPath()
		if err != nil {
			return nil, err
		}
		d = processes.New(processes.Config{Bin: bin, Dir: dir})
	}
	live := io.Discard
	if !a.asJSON {
		live = a.stdout
		fmt.Fprintf(live, "%s, seed %d, on %s: %s\n", s.Name, s.Cluster.Seed, o.on, firstLine(s.About))
	}
	r, err := chaos.Play(ctx, s, &narrator{Driver: d, out: live})
	if err == nil && r.Ok() {
		return r, os.RemoveAll(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; logs, if it came so far, are in %s", err, logs)
	}
	fmt.Fprintf(a.stderr, "conclave: the logs are in %s\n", logs)
	return r, nil
}

// containersDriver plays on a project of its own.
func (a *app) containersDriver(o chaosOptions) chaos.Driver {
	var stage *composeStage
	return containers.New(containers.Config{
		Nodes: composeNodes,
		Start: func(ctx context.Context, c chaos.Cluster) (*compose.Project, string, error) {
			options := o.compose
			options.takeover = c.Takeover
			opened, err := openCompose(ctx, options)
			if err != nil {
				return nil, "", err
			}
			stage = opened.(*composeStage)
			return stage.Project, stage.token, nil
		},
		End: func(context.Context) error {
			if stage == nil {
				return nil
			}
			if said := stage.Close(true); said != "" { // it keeps the logs: they have a folder
				return errors.New(strings.TrimPrefix(said, "; "))
			}
			return nil
		},
	})
}

// narrator is a driver that says what it does and what can be seen of it.
type narrator struct {
	chaos.Driver
	out io.Writer

	mu    sync.Mutex // guards the rest
	began time.Time
	last  string
}

func (n *narrator) say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.began.IsZero() {
		n.began = time.Now()
	}
	fmt.Fprintf(n.out, "%6.1f s  %s\n", time.Since(n.began).Seconds(), text)
}

// Do says so before.
func (n *narrator) Do(ctx context.Context, a chaos.Act) error {
	n.say("> " + a.String())
	return n.Driver.Do(ctx, a)
}

// Look says what has changed.
func (n *narrator) Look(ctx context.Context) chaos.Sight {
	s := n.Driver.Look(ctx)
	unserved := 0
	for _, x := range s.Table.Slots {
		if x.Phase == "crash" || x.Phase == "switching" {
			unserved++
		}
	}
	leader := "no leader"
	if s.Leader != "" {
		leader = fmt.Sprintf("%s leads term %d", s.Leader, s.Term)
	}
	now := fmt.Sprintf("  %s, %d of %d up are ready", leader, len(s.Ready), len(s.Up))
	if unserved > 0 {
		now += fmt.Sprintf(", %s on the way to a new leader", plural(unserved, "slot"))
	}
	if s.Frozen {
		now += ", protected"
	}
	n.mu.Lock()
	changed := now != n.last
	n.last = now
	n.mu.Unlock()
	if changed {
		n.say(now)
	}
	return s
}
