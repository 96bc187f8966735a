package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"conclave/internal/supervisor"
)

// readyWait is how long `up` waits for its cluster: longer than the metas wait for
// their database (a minute).
const readyWait = 75 * time.Second

func (a *app) upCommand() *cobra.Command {
	cfg := supervisor.DefaultConfig()
	var detach bool
	cmd := &cobra.Command{
		Use: "up", Short: "Start a local cluster of processes", Args: want(),
		Long: `Starts a local cluster of processes in the folder --dir and prints the table of
"ps" once every node is ready. Ctrl-C stops it; with --detach the tool returns and
"conclave down" stops it. What is killed stays down until "conclave start NAME";
with --restart it comes back by itself.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Dir, cfg.Token = a.dir, a.token
			var err error
			if cfg.Dir, err = filepath.Abs(a.dir); err != nil {
				return err
			}
			if cfg.Tool, cfg.Bin, err = toolPath(); err != nil {
				return err
			}
			if err := cfg.Validate(); err != nil {
				return err
			}
			if err := checkUp(cmd.Flags(), cfg); err != nil {
				return err
			}
			if detach {
				return a.upDetached(cmd.Context(), cfg)
			}
			return a.upHere(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Metas, "meta-nodes", cfg.Metas, "number of metas")
	f.IntVar(&cfg.Sessions, "session-nodes", cfg.Sessions, "number of sessions")
	f.IntVar(&cfg.Datas, "data-nodes", cfg.Datas, "number of data nodes")
	f.IntVar(&cfg.Slots, "slots", 0, "number of slots, a power of two (default 256)")
	f.IntVar(&cfg.Replicas, "replicas", 0, "copies of each slot, the leader's included, 1 to 16 (default 2); fewer while there are fewer data nodes")
	f.StringVar(&cfg.Profile, "profile", "", "conclave, or sofa: the original's timings and statements (default conclave)")
	f.DurationVar(&cfg.Lease, "lease", 0, "how long a leader is trusted after it was last heard (default 3s)")
	f.DurationVar(&cfg.NodeLease, "node-lease", 0, "how long a node is kept after it was last heard (default 3s)")
	f.StringVar(&cfg.Takeover, "takeover", "", "witness: a leader's broken connection is evidence; lease: only time is (default witness)")
	f.StringVar(&cfg.DB, "db", cfg.DB, "embedded, or the DSN of a MySQL server")
	f.DurationVar(&cfg.Restart, "restart", 0, "start again, this long after its end, whatever was killed or died")
	f.BoolVar(&detach, "detach", false, "return when the cluster is ready")
	f.IntVar(&cfg.Clients, "clients", 0, "publishers, and as many subscribers, to keep at work")
	return cmd
}

// upHere supervises in this process until a signal or `down`.
func (a *app) upHere(ctx context.Context, cfg supervisor.Config) error {
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: a.stderr, Level: hclog.Info, TimeFormat: "15:04:05.000"})
	c, err := supervisor.New(cfg)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }() // joined below, on every way out
	stopWatching := hurryOnSignal(ctx, c)
	defer stopWatching()

	ready, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := c.Handle().AwaitReady(ready); err != nil && ctx.Err() == nil {
		c.Stop(true)
		if stopped := <-ended; stopped != nil {
			cfg.Logger.Debug("stopped", "error", stopped) // why it was stopped is what there is to say
		}
		return err
	}
	if ctx.Err() == nil {
		if err := a.printProcesses(ctx, c.Handle()); err != nil {
			c.Stop(false)
			return errors.Join(err, <-ended)
		}
		if !a.asJSON {
			fmt.Fprintf(a.stdout, "\nThe cluster is up. Try `conclave kill leader`, `conclave elections`, `conclave events -f`. Ctrl-C stops it.\n")
		}
	}
	return <-ended
}

// hurryOnSignal kills what is left at the second signal; the first ended ctx.
func hurryOnSignal(ctx context.Context, c *supervisor.Cluster) (stop func()) {
	again := make(chan os.Signal, 1)
	done := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-done:
			return
		}
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		select {
		case <-again:
			c.Stop(true)
		case <-done:
		}
	}()
	return func() { signal.Stop(again); close(done) }
}

// upDetached has a supervisor of its own process, in a session of its own, and
// returns when the cluster is ready.
func (a *app) upDetached(ctx context.Context, cfg supervisor.Config) error {
	logs := filepath.Join(cfg.Dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, "supervisor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	// The new supervisor says on this pipe whether it took the folder.
	hear, say, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hear.Close()
	cmd := exec.Command(cfg.Tool, "supervise")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{say}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	say.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	err = json.NewEncoder(stdin).Encode(cfg)
	stdin.Close()
	answer, readErr := io.ReadAll(hear)
	if err := errors.Join(err, readErr); err != nil {
		return fmt.Errorf("talk to the supervisor: %w", err)
	}
	if string(answer) != supervising {
		_ = cmd.Wait() // it has said why it ends
		if len(answer) == 0 {
			answer = []byte("it ended at once; see " + log.Name())
		}
		return errors.New(string(answer))
	}
	_ = cmd.Process.Release() // it outlives this tool

	h, err := supervisor.Open(cfg.Dir)
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := h.AwaitReady(ready); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if down := h.Down(undo, true); down != nil && !errors.Is(down, supervisor.ErrNone) {
			err = errors.Join(err, down)
		}
		return err
	}
	return a.printProcesses(ctx, h)
}

// supervising is what a new supervisor says when it has taken the folder.
const supervising = "supervising"

// superviseCommand is the supervisor's own process, for `up --detach`: its
// configuration comes on stdin, its first answer goes to descriptor 3.
func (a *app) superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise", Hidden: true, Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := os.NewFile(3, "answer")
			if say == nil {
				return usageError{errors.New("supervise is started by `up --detach` only")}
			}
			syscall.CloseOnExec(3) // or the processes would keep it open, and `up` would wait for its end for ever
			var cfg supervisor.Config
			if err := json.NewDecoder(os.Stdin).Decode(&cfg); err != nil {
				return fmt.Errorf("read the configuration: %w", err)
			}
			cfg.Logger = hclog.New(&hclog.LoggerOptions{Name: "supervisor", Output: a.stderr, Level: hclog.Info})
			c, err := supervisor.New(cfg)
			if err != nil {
				fmt.Fprint(say, err)
				say.Close()
				return err
			}
			stopWatching := hurryOnSignal(cmd.Context(), c)
			defer stopWatching()
			go func() { // Run closes what it waits for, whatever happens
				<-c.Started()
				fmt.Fprint(say, supervising)
				say.Close()
			}()
			return c.Run(cmd.Context())
		},
	}
}

func (a *app) downCommand() *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the local cluster", Args: want(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := supervisor.Open(a.dir)
			if err == nil {
				err = h.Down(cmd.Context(), now)
			}
			if errors.Is(err, supervisor.ErrNone) {
				fmt.Fprintf(a.stderr, "conclave: no cluster runs in %s\n", a.dir)
				return nil
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&now, "now", false, "kill everything instead of stopping it in order")
	return cmd
}
