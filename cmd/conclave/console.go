package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"conclave/internal/join"
	"conclave/testbed"
	"conclave/testbed/console"
	"conclave/testbed/console/journal"
	"conclave/testbed/console/live"
	"conclave/testbed/console/recorded"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
	"conclave/wire"
)

// consoleAddress is where the console listens by default.
const consoleAddress = "127.0.0.1:9700"

func (a *app) consoleCommand() *cobra.Command {
	var listen string
	var act bool
	var hosts []string
	var recording string
	on := "local"
	var of composeProject
	cmd := &cobra.Command{
		Use: "console", Short: "Watch a cluster in a browser", Args: want(),
		Long: `Serve a page with the map of a running cluster, its slots, its terms and its events.
On a loopback address everyone may watch; elsewhere the printed address has a token. A
console that did not start the cluster only watches it; with --allow-actions it prints a
one-time link with which one can act (and without --json the next one when that was
used), and runs clients of its own, whose lists are checked. "conclave up --console"
starts both: then the nodes' events are checked too. With --on compose it is the cluster
in containers that "make compose-up" or "docker compose up" has started.

With --recording it plays a run of the simulator ("make sim SEED=n RECORD=FILE") instead:
forwards and backwards, message by message.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case on == "compose" && (recording != "" || len(a.metas) > 0):
				return usageError{errors.New("--on compose excludes --recording and --meta")}
			case act && len(a.metas) > 0:
				return usageError{errors.New("--allow-actions needs the cluster in --dir, or --on compose: it cannot kill processes of another machine")}
			}
			if err := checkAddresses("--listen", listen); err != nil {
				return err
			}
			ctx := cmd.Context()
			var source console.Source
			var err error
			end := func() error { return nil }
			switch {
			case recording != "":
				source, err = recordingSource(recording)
			case on == "compose":
				source, end, err = a.containersSource(ctx, of, act)
			default:
				if source, err = a.liveSource(act); err == nil {
					err = a.reachMetas(ctx)
				}
			}
			if err != nil {
				return err
			}
			ln, err := listenConsole(ctx, "--listen", listen)
			if err == nil {
				err = a.serveConsole(ctx, ln, hosts, source)
			}
			return errors.Join(err, end())
		},
	}
	cmd.Flags().StringVar(&listen, "listen", consoleAddress, "address to listen on")
	cmd.Flags().StringVar(&recording, "recording", "", "play this recording instead of watching a cluster")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "host names of this machine under which a browser may open it (NAME,...)")
	cmd.Flags().BoolVar(&act, "allow-actions", false, "permit faults and commands, by a one-time link (not with --meta)")
	addChoice(cmd, &on, "on", "what to watch: local (the cluster in --dir, or of --meta) or compose (containers)", "local", "compose")
	of.bind(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("recording", "allow-actions")
	return cmd
}

// reachMetas returns an error if --meta is given and none of these addresses answers:
// the page would stay empty.
func (a *app) reachMetas(ctx context.Context) error {
	if len(a.metas) == 0 {
		return nil
	}
	metas, err := a.metaAddresses()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nodeWait)
	defer cancel()
	errs := join.Map(metas, func(meta string) error {
		_, err := a.getPage(ctx, meta, "/healthz", new(any))
		return err
	})
	if slices.Contains(errs, nil) {
		return nil
	}
	return wire.Errorf(wire.CodeUnavailable, "no meta of --meta answers: %v", errors.Join(errs...))
}

// recordingSource returns the source for a recording.
func recordingSource(file string) (console.Source, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--recording: %w", err)}
	}
	defer f.Close()
	r, err := journal.Open(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return recorded.New(r), nil
}

// settings returns those of the metas.
func settings(c supervisor.Config) live.Settings {
	return live.Settings{Replicas: c.Replicas, Profile: c.Profile, Takeover: c.Takeover, Lease: c.Lease, NodeLease: c.NodeLease}
}

// liveSource returns the source for the cluster in --dir, or of --meta.
func (a *app) liveSource(act bool) (*live.Source, error) {
	metas, err := a.metaAddresses() // sets the token
	if err != nil {
		return nil, err
	}
	cfg := live.Config{HTTP: a.http, TokenFor: a.tokensFor()}
	if len(a.metas) > 0 {
		cfg.Title, cfg.Processes = "the cluster of "+metas[0], live.Remote(metas, a.http, cfg.TokenFor)
		return live.New(cfg), nil
	}
	h, err := a.running()
	if err != nil {
		return nil, err
	}
	started, err := h.Config()
	if err != nil {
		return nil, err
	}
	cfg.Settings = settings(started)
	cfg.Title, cfg.Processes = "the cluster in "+a.dir, h.Processes
	if act {
		running, err := local.Attach(h, h.Dir())
		if err != nil {
			return nil, err
		}
		if err := running.Open(context.Background(), testbed.Size{}, nil); err != nil {
			return nil, err
		}
		cfg.Cluster = running
	}
	return live.New(cfg), nil
}

// listenConsole listens at the address of a flag.
func listenConsole(ctx context.Context, flag, address string) (net.Listener, error) {
	if err := checkAddresses(flag, address); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the console cannot listen: %w; choose another address with %s=HOST:PORT", err, flag)
	}
	return ln, nil
}

// serveConsole serves the page until ctx ends, and closes the listener.
func (a *app) serveConsole(ctx context.Context, ln net.Listener, hosts []string, source console.Source) error {
	cfg := console.Config{Source: source, Hosts: hosts}
	if at, ok := ln.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		cfg.Watch = rand.Text()
	}
	address := shownAddress(ln.Addr(), hosts)
	if !a.asJSON {
		cfg.Opened = func(by, next string) { a.showLink("used from "+by+"; another browser: ", address, next) }
	}
	server := console.NewServer(cfg)
	a.showConsole(server, address, cfg)
	return server.Serve(ctx, ln)
}

// shownAddress returns the address under which a browser may open the page: if it
// listens on all of them, under the first host name, or on this machine.
func shownAddress(at net.Addr, hosts []string) string {
	host, port, err := net.SplitHostPort(at.String())
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil || !ip.IsUnspecified():
		return at.String()
	case len(hosts) > 0:
		return net.JoinHostPort(hosts[0], port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// showConsole prints where the page is.
func (a *app) showConsole(s *console.Server, address string, c console.Config) {
	page := "http://" + address + "/"
	watch := page
	if c.Watch != "" {
		watch += "?token=" + c.Watch
	}
	acts := c.Source.Acts() == console.Holder
	if a.asJSON {
		out := map[string]string{"watch": watch}
		if acts {
			out["act"] = "http://" + address + s.Link()
		}
		_ = a.show(out, nil)
		return
	}
	fmt.Fprintf(a.stdout, "\nconsole: %s\n", watch)
	if acts {
		a.showLink("to act:  ", address, s.Link())
	}
}

// showLink prints a one-time link. When it was used, the next one is printed.
func (a *app) showLink(what, address, link string) {
	fmt.Fprintf(a.stdout, "%shttp://%s%s (once, in one browser)\n", what, address, link)
}

// upWithConsole runs a cluster and its console in this process until a signal or
// `down`. The cluster's processes are connected through proxies, so that the network
// can be cut, and write their events for the checks.
func (a *app) upWithConsole(ctx context.Context, cfg supervisor.Config, listen string) error {
	ln, err := listenConsole(ctx, "--console", listen)
	if err != nil {
		return err
	}
	defer ln.Close() // the console has closed it, unless it was never started
	if h, err := supervisor.Open(cfg.Dir); err == nil && h.Running() {
		return fmt.Errorf("a cluster is running in %s: show it with %s", cfg.Dir, a.hint("console --allow-actions"))
	}
	traces := filepath.Join(cfg.Dir, "traces")
	if err := errors.Join(os.RemoveAll(traces), os.MkdirAll(traces, 0o700)); err != nil { // those of an earlier run
		return err
	}
	cfg.Logger = a.logger("supervisor")
	cluster := local.New(local.Config{Dir: cfg.Dir, Bin: cfg.Bin, TLS: cfg.TLS, Settings: func(c *supervisor.Config) {
		detour := c.Detour
		*c = cfg
		c.Detour, c.Trace = detour, traces
	}})
	if err := cluster.Open(ctx, testbed.Size{}, nil); err != nil {
		return fmt.Errorf("%w (the console has %s)", err, ln.Addr())
	}
	err = a.watchOwn(ctx, cluster, cfg, ln)
	cfg.Logger.Info(stopping)
	hurry, cancel := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM) // the second signal
	defer cancel()
	return errors.Join(err, cluster.Stop(hurry), cluster.Close(hurry))
}

// watchOwn shows a cluster that this process has started, until ctx ends or it
// was stopped.
func (a *app) watchOwn(ctx context.Context, cluster *local.Cluster, cfg supervisor.Config, ln net.Listener) error {
	ready, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := cluster.AwaitReady(ready); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	h := cluster.Supervisor()
	if _, err := a.adopt(h, nil); err != nil {
		return err
	}
	if err := a.showStarted(ctx, h); err != nil {
		return err
	}
	a.takeToken(h)
	source := live.New(live.Config{
		Title: "the cluster in " + a.dir, Processes: h.Processes, HTTP: a.http, TokenFor: a.tokensFor(), Cluster: cluster, Traces: filepath.Join(cfg.Dir, "traces"), Settings: settings(cfg), Ends: true,
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() { // joined below
		defer close(watched)
		_ = outside.Until(ctx, 500*time.Millisecond, func() (bool, error) { return h.Supervisor() == 0, nil }) // down, or ctx has ended
		stop()
	}()
	err := a.serveConsole(ctx, ln, nil, source)
	stop()
	<-watched
	return err
}
