package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"conclave/internal/sleep"
	"conclave/meta/metaclient"
	"conclave/testbed/containers/compose"
	"conclave/wire"
)

// composeOptions are the flags for containers.
type composeOptions struct {
	db, takeover, project, dir, logLevel, logs string

	nodes []string // services that are nodes; nil: composeNodes
	more  []string // files that compose reads after docker-compose.yml
}

// bind adds the flags. project is the default project of the command, and kept
// describes when it keeps logs by default.
func (o *composeOptions) bind(f *pflag.FlagSet, project, kept string) {
	f.StringVar(&o.db, "db", "", "with --on compose: mysql, mariadb, or an image (default: DB_IMAGE, or mysql)")
	f.StringVar(&o.takeover, "takeover", "witness", "with --on compose: how a dead leader is detected: witness (its connection breaks) or lease (time only)")
	f.StringVar(&o.project, "project", project, "with --on compose: name of the project; what an earlier run has left of it is removed")
	f.StringVar(&o.dir, "compose-dir", ".", "with --on compose: folder of docker-compose.yml")
	f.StringVar(&o.logs, "logs", "", "with --on compose: folder for the logs of all containers (default: a temporary one, "+kept+")")
	f.StringVar(&o.logLevel, "log-level", "info", "with --on compose: log level of the metas")
}

// validate checks --on and the flags that depend on it.
func (o *composeOptions) validate(on string) error {
	switch on {
	case "local":
		return nil
	case "compose":
	default:
		return fmt.Errorf("invalid --on %q (want local or compose)", on)
	}
	switch o.takeover {
	case "witness", "lease":
	default:
		return fmt.Errorf("invalid --takeover %q (want witness or lease)", o.takeover)
	}
	if _, err := compose.New(compose.Config{Name: o.project}); err != nil {
		return fmt.Errorf("--project: %w", err)
	}
	return nil
}

// The services of docker-compose.yml that the demo needs: all except the
// clients, since it has its own.
var composeNodes = []string{"meta-1", "meta-2", "meta-3", "data-1", "data-2", "data-3", "session-1", "session-2"}

const composeDB = "db"

// composeLease is the default lease of metas, which docker-compose.yml does not
// change.
const composeLease = 3 * time.Second

// The images of each kind of database in the order of compose/db-image: the
// official one, and the one that .ci/mysql-image builds without a registry.
var databaseImages = map[string][]string{
	"mysql":   {"mysql:8.4", "mysql-local:9"},
	"mariadb": {"mariadb:10.11", "mariadb-local:10.11"},
}

// composeStage is a cluster in containers, reached through its published ports.
type composeStage struct {
	*compose.Project
	nodes   []string // services
	token   string
	network wire.Network
	image   string // of the database
	logs    string // folder of the containers' logs
	keep    bool   // even if the demo succeeds
}

var (
	_ stage        = (*composeStage)(nil)
	_ breakable    = (*composeStage)(nil)
	_ wire.Network = (*compose.Outside)(nil)
)

func (a *app) composeScenery(o composeOptions) scenery {
	return scenery{
		title: "a service registry cluster in containers, broken on purpose",
		more:  "Nine containers. The clients are here, outside of them; a checker holds subscribers and judges every push.",
		each:  "a container of its own",
		open:  func(ctx context.Context) (stage, error) { return openCompose(ctx, o) },
		scenes: func(d *demo) []func(context.Context) error {
			hard := &outages{demo: d, stage: d.stage.(*composeStage), lease: composeLease}
			return []func(context.Context) error{
				d.killLeader, hard.freezeLeader, hard.cutLeader, hard.freezeDatabase, hard.restartDatabase, hard.blackout,
				d.drainData, d.killData, d.killSession,
			}
		},
	}
}

func openCompose(ctx context.Context, o composeOptions) (stage, error) {
	if err := compose.Available(ctx); err != nil {
		return nil, err
	}
	env := []string{
		"CONCLAVE_META_TAKEOVER=" + o.takeover, "CONCLAVE_META_LOG_LEVEL=" + o.logLevel,
		"HEALTH_INTERVAL=1s", // only for the start; the demo queries the nodes itself
	}
	if o.nodes == nil {
		o.nodes = composeNodes
	}
	for _, n := range o.nodes { // any free port, because other clusters may use the default ones
		env = append(env, strings.ToUpper(strings.ReplaceAll(n, "-", "_"))+"_PORT=0")
	}
	if image := databaseImage(ctx, o.db); image != "" {
		env = append(env, "DB_IMAGE="+image)
	}
	s := &composeStage{nodes: o.nodes, logs: o.logs, keep: o.logs != ""}
	var err error
	if s.keep {
		err = os.MkdirAll(s.logs, 0o755)
	} else {
		s.logs, err = os.MkdirTemp("", "conclave-demo-")
	}
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(s.logs, "compose.log"))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	s.Project, err = compose.New(compose.Config{
		Name: o.project, Dir: o.dir, More: o.more, Env: env, Services: append([]string{composeDB}, o.nodes...), Out: said,
	})
	if err != nil {
		return nil, err
	}
	s.network = s.Outside()
	starting, cancel := context.WithTimeout(ctx, 2*readyWait)
	defer cancel()
	err = s.Up(starting)
	if err == nil {
		s.token, err = composeToken(o.dir)
	}
	if err == nil {
		err = s.AwaitReady(starting)
	}
	if err == nil {
		var db compose.Container
		db, err = s.Container(starting, composeDB)
		s.image = db.Image
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, s.Close(ctx.Err() != nil))
	}
	return s, nil
}

// databaseImage returns the first image of a kind that the engine has, or the
// official one, which the engine has to pull; "" leaves the choice to the
// environment.
func databaseImage(ctx context.Context, kind string) string {
	if kind == "" && os.Getenv("DB_IMAGE") != "" {
		return ""
	}
	if kind == "" {
		kind = "mysql"
	}
	images := databaseImages[kind]
	for _, image := range images {
		if exec.CommandContext(ctx, "docker", "image", "inspect", image).Run() == nil {
			return image
		}
	}
	if len(images) == 0 {
		return kind // it names an image
	}
	return images[0]
}

// composeToken returns the token that the project's containers created at their
// first start.
func composeToken(dir string) (string, error) {
	secrets := os.Getenv("CONCLAVE_SECRETS")
	if secrets == "" {
		secrets = filepath.Join(dir, "compose", "secrets")
	}
	token, err := os.ReadFile(filepath.Join(secrets, tokenSecret))
	if err != nil {
		return "", fmt.Errorf("read token of the cluster: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// The ports of the roles in the containers.
var composePorts = map[string]string{"meta": "9615", "data": "9622", "session": "9603"}

// Addresses returns the advertised addresses, which Network can dial.
func (s *composeStage) Addresses(role string) ([]string, error) {
	var out []string
	for _, n := range s.nodes {
		if strings.HasPrefix(n, role+"-") {
			out = append(out, n+":"+composePorts[role])
		}
	}
	return out, nil
}

func (s *composeStage) Network() wire.Network { return s.network }

func (s *composeStage) Token() string { return s.token }

func (s *composeStage) Database() string { return s.image }

func (s *composeStage) Tool() string {
	return program() + " --meta " + strings.Join(s.Published("meta-"), ",")
}

func (s *composeStage) AwaitReady(ctx context.Context) error {
	return s.Project.AwaitReady(ctx, s.nodes...)
}

// Died returns the time that the engine reports.
func (s *composeStage) Died(ctx context.Context, name string, _ time.Time) (time.Time, error) {
	c, err := s.Container(ctx, name)
	if err == nil && c.State != "exited" {
		err = fmt.Errorf("%s is %s", name, c.State)
	}
	return c.Finished, err
}

// Cut disconnects a node from the network `database`.
func (s *composeStage) Cut(ctx context.Context, name string) (func(context.Context) error, error) {
	member, err := s.Project.Cut(ctx, name, "database")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return s.Join(ctx, member) }, nil
}

// restartGrace is how long a database may take to stop.
const restartGrace = 20 * time.Second

func (s *composeStage) Restart(ctx context.Context, name string) error {
	return s.Project.Restart(ctx, name, restartGrace)
}

// Answered reads the time from the database's log, where MySQL and MariaDB
// write the same message.
func (s *composeStage) Answered(ctx context.Context, name string, since time.Time) (time.Time, error) {
	for {
		log, err := s.Logs(ctx, name, since)
		if err != nil {
			return time.Time{}, err
		}
		for line := range strings.Lines(log) {
			if stamp, text, _ := strings.Cut(line, " "); strings.Contains(text, "ready for connections") {
				return time.Parse(time.RFC3339Nano, stamp)
			}
		}
		if err := sleep.For(ctx, 100*time.Millisecond); err != nil {
			return time.Time{}, fmt.Errorf("%s does not accept connections again: %w", name, err)
		}
	}
}

// Stop announces to every node that the whole cluster is stopping, and stops
// the roles so that each stops before those that it depends on.
func (s *composeStage) Stop(ctx context.Context) error {
	s.announceStop(ctx)
	var errs []error
	for _, role := range []string{"session", "data", "meta", composeDB} {
		var stopping sync.WaitGroup
		var mu sync.Mutex // guards errs
		for _, n := range append([]string{composeDB}, s.nodes...) {
			if !strings.HasPrefix(n, role) {
				continue
			}
			stopping.Go(func() {
				err := s.Project.Stop(ctx, n, restartGrace)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			})
		}
		stopping.Wait()
	}
	all, err := s.Containers(ctx)
	errs = append(errs, err)
	for _, c := range all {
		if c.State != "exited" || c.ExitCode != 0 {
			errs = append(errs, fmt.Errorf("%s is %s with code %d", c.Service, c.State, c.ExitCode))
		}
	}
	return errors.Join(errs...)
}

// announceStop announces the stop to the nodes. A node that cannot be reached
// in time stops as if only it were stopping.
func (s *composeStage) announceStop(ctx context.Context) {
	web := webClient(s.network)
	defer web.CloseIdleConnections()
	var nodes []string
	for _, role := range []string{"session", "data"} {
		addresses, _ := s.Addresses(role) // it always returns nil
		nodes = append(nodes, addresses...)
	}
	metas, _ := s.Addresses("meta")
	admin := metaclient.NewAdmin(metaclient.AdminConfig{Metas: metas, HTTP: web, Token: s.token})
	admin.AnnounceStop(ctx, nodes, 4*restartGrace, "demo")
}

// Close removes the project, also when the demo was interrupted.
func (s *composeStage) Close(succeeded bool) string {
	if succeeded && !s.keep {
		_ = os.RemoveAll(s.logs) // nothing in it is needed any more
	} else {
		s.keepLogs()
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	said := ""
	if err := s.Down(ctx); err != nil {
		said = fmt.Sprintf("; the project %s is not taken down: %v", s.Name(), err)
	}
	if !succeeded {
		said += "; logs are in " + s.logs
	}
	return said
}

// keepLogs writes the logs of all containers; errors are ignored.
func (s *composeStage) keepLogs() {
	ctx, cancel := context.WithTimeout(context.Background(), readyWait/3)
	defer cancel()
	for _, n := range append([]string{composeDB}, s.nodes...) {
		if log, err := s.Logs(ctx, n, time.Time{}); err == nil {
			_ = os.WriteFile(filepath.Join(s.logs, n+".log"), []byte(log), 0o644)
		}
	}
}
