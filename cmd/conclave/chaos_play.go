package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"conclave/testbed"
	"conclave/testbed/containers"
	"conclave/testbed/local"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/scenario"
)

// chaosOptions are the flags of `chaos run`.
type chaosOptions struct {
	clusterOptions
	seed   uint64
	times  int
	beside int
	html   string
}

func (o *chaosOptions) validate() error {
	if o.beside < 1 || o.beside > 16 {
		return fmt.Errorf("--parallel %d: want 1 to 16", o.beside)
	}
	return o.clusterOptions.validate()
}

// scenario returns the scenario of a name: a built-in one, a file, or a storm.
func (o *chaosOptions) scenario(name string, on *testbed.Capabilities) (scenario.Scenario, error) {
	if name == stormName {
		return scenario.Storm(o.seed, on), nil
	}
	s, err := scenario.Builtin(name)
	if err == nil {
		return s, nil
	}
	info, fileErr := os.Stat(name)
	switch {
	case errors.Is(fileErr, os.ErrNotExist):
		return s, usageError{fmt.Errorf("%w, and no such file; list the scenarios with `"+program()+" chaos list`", err)}
	case fileErr == nil && info.IsDir():
		return s, usageError{fmt.Errorf("%s is a directory: want a file or a scenario of `conclave chaos list`", name)}
	}
	text, fileErr := os.ReadFile(name)
	if fileErr != nil {
		return s, fileErr
	}
	if s, err = scenario.Parse(name, string(text)); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// playError is the error of a run that was begun and came to no result: its cluster
// did not start, or the driver broke.
type playError struct{ error }

func (e *playError) Unwrap() error { return e.error }

// runStage is the environment of a run: a cluster and its capabilities.
type runStage struct {
	cluster  testbed.RealCluster
	can      *testbed.Capabilities
	dir      string        // the folder of this run
	logs     string        // the folder of the processes' logs
	tool     func() string // the call of the tool on this cluster
	database func() string // the image of the database; "": the embedded one
}

// capabilities returns those of a new cluster.
func capabilities(on string) *testbed.Capabilities {
	if on == "compose" {
		return containers.Capabilities()
	}
	return local.Capabilities()
}

// errInterrupted is the error of a run that was ended by Ctrl-C.
var errInterrupted = errors.New("interrupted: this run was not checked and left nothing behind")

// playChaos runs the scenario once on a new cluster, or on the one in --dir. It
// keeps the nodes' logs if an invariant did not hold. What happens is printed to
// out, and where the logs are to stderr.
func (a *app) playChaos(ctx context.Context, name string, attach bool, o chaosOptions, out, stderr io.Writer) (*scenario.Result, error) {
	stage, err := a.newStage(stageConfig{clusterOptions: o.clusterOptions, command: "chaos", attach: attach})
	if err != nil {
		return nil, err
	}
	keep := false
	defer func() { stage.remove(keep) }()
	s, err := o.scenario(name, stage.can)
	if err != nil {
		return nil, err
	}
	s.Cluster.Seed = o.seed
	if attach {
		s.Cluster = stage.can.Size(s.Cluster) // the size of the running cluster
	}
	if why := s.Refusals(stage.can); len(why) > 0 {
		var commands []string
		for _, on := range playableOn(s) {
			commands = append(commands, playCommand(name, on))
		}
		return nil, fmt.Errorf("%s cannot run on %s (missing there: %s); play it with %s", s.Name, o.on, strings.Join(why, ", "), strings.Join(commands, " or "))
	}
	fmt.Fprintf(out, "%s, seed %d, on %s: %s\n", s.Name, s.Cluster.Seed, o.on, scenario.FirstSentence(s.About))
	var r *scenario.Result
	timeline := scenario.NewTimeline(stage.cluster, out)
	r, keep, err = stage.play(ctx, s, timeline, stderr, timeline)
	switch {
	case err != nil:
		return nil, &playError{err}
	case r.Skipped != "":
		return nil, fmt.Errorf("%s cannot run on %s: %s", s.Name, o.on, r.Skipped)
	}
	return r, nil
}

// remove removes the folder of the run, unless it is to be kept.
func (s *runStage) remove(keep bool) {
	if !keep {
		_ = os.RemoveAll(s.dir) // nothing in it is needed any more
	}
}

// play runs the scenario on a cluster, that of the stage or one around it, and
// reports whether to keep the folder. A scenario that has run to its end is
// checked even if a Ctrl-C came while its cluster was being stopped.
func (s *runStage) play(ctx context.Context, of scenario.Scenario, on testbed.Cluster, stderr io.Writer, narrators ...scenario.Narrator) (r *scenario.Result, keep bool, err error) {
	r, err = scenario.Play(ctx, of, on, narrators...)
	switch {
	case err != nil && ctx.Err() != nil:
		if left := (*leftError)(nil); errors.As(err, &left) {
			return nil, false, fmt.Errorf("interrupted: %w", left)
		}
		return nil, false, errInterrupted
	case err == nil && r.Ok():
		return r, false, nil
	case err != nil && !s.hasLogs():
		return nil, false, err
	}
	if kerr := s.record(r); kerr != nil {
		fmt.Fprintf(stderr, "conclave: could not write the history: %v\n", kerr)
	}
	where := s.dir
	if !strings.HasPrefix(s.logs, s.dir) {
		where += " (logs in " + s.logs + ")"
	}
	if err != nil {
		return r, true, fmt.Errorf("%w; logs and trace are in %s", err, where)
	}
	fmt.Fprintf(stderr, "conclave: logs, trace and history are in %s\n", where)
	return r, true, nil
}

// hasLogs reports whether a process or the engine has written a log.
func (s *runStage) hasLogs() bool {
	files, err := filepath.Glob(filepath.Join(s.logs, "*.log"))
	return err == nil && len(files) > 0
}

// record writes the history of a run in which an invariant did not hold.
func (s *runStage) record(r *scenario.Result) error {
	if r == nil || r.History == nil {
		return nil
	}
	return writeFile(filepath.Join(s.dir, "history.txt"), func(to io.Writer) error {
		w := bufio.NewWriter(to)
		fmt.Fprintf(w, "%s\n", r.Scenario)
		for _, e := range r.History.Entries {
			fmt.Fprintln(w, e)
		}
		return w.Flush()
	})
}

// stageConfig describes the cluster of a run.
type stageConfig struct {
	clusterOptions
	command  string // names the folder
	attach   bool   // to the cluster in --dir
	direct   bool   // as users run the processes, without proxies between them
	bin      string // folder of the programs; "": that of the tool
	noEvents bool   // the nodes write no trace files
}

// newStage creates the folder and the cluster of one run of a command.
func (a *app) newStage(o stageConfig) (*runStage, error) {
	var nodes *supervisor.Handle
	if o.attach {
		var err error
		if nodes, err = a.local(); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "conclave-"+o.command+"-")
	if err != nil {
		return nil, err
	}
	inner := filepath.Join(dir, "cluster")
	s := &runStage{can: capabilities(o.on), dir: dir, logs: filepath.Join(inner, "logs"), tool: func() string { return program() + " --dir " + inner }, database: func() string { return "" }}
	switch {
	case o.on == "compose":
		if s.logs = filepath.Join(dir, "logs"); o.logs != "" {
			s.logs = o.logs
		}
		cfg, project := containersConfig(dir, s.logs, o.clusterOptions)
		cfg.NoEvents = o.noEvents
		s.cluster, s.tool, s.database = containers.New(cfg), project.tool, func() string { return project.image }
	case o.attach:
		s.logs = filepath.Join(nodes.Dir(), "logs")
		var running *local.Cluster
		if running, err = local.Attach(nodes, dir); err == nil {
			s.cluster, s.can = running, running.Capabilities()
		}
	default:
		cfg := local.Config{Bin: o.bin, Dir: dir, NoEvents: o.noEvents, Direct: o.direct, OwnTokens: true, TLS: o.tls}
		if o.direct {
			cfg.Dir = inner
		}
		if cfg.Bin == "" {
			_, cfg.Bin, err = toolPath()
		}
		s.cluster = local.New(cfg)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(dir))
	}
	return s, nil
}

// summary returns the first sentence of a comment, and the second one if the
// first is too short to show what happens.
func summary(about string) string {
	text := strings.Join(strings.Fields(about), " ")
	first := scenario.FirstSentence(text)
	if rest := strings.TrimSpace(strings.TrimPrefix(text, first)); len(first) < 60 && rest != "" {
		return first + " " + scenario.FirstSentence(rest)
	}
	return first
}
