package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"conclave/client"
	"conclave/testbed"
	"conclave/testbed/containers"
	"conclave/testbed/outside"
)

// clusterOptions are the flags of a new cluster for one run: --on, --tls, and those for
// containers.
type clusterOptions struct {
	on                                         string // local, compose
	db, takeover, project, dir, logLevel, logs string
	tls                                        bool // of the cluster, in containers or of processes
}

// bind adds the flags. project is the default project of the command, and
// kept describes when it keeps logs by default.
func (o *clusterOptions) bind(cmd *cobra.Command, project, kept string) {
	f := cmd.Flags()
	o.on, o.takeover = "local", "witness"
	addChoice(cmd, &o.on, "on", "where to run: local (processes) or compose (containers)", "local", "compose")
	f.StringVar(&o.db, "db", "", "with --on compose: mysql, mariadb, or an image (default: DB_IMAGE, or mysql)")
	addChoice(cmd, &o.takeover, "takeover", "with --on compose: how a dead leader is detected: witness (its connection breaks) or lease (time only)", "witness", "lease")
	f.StringVar(&o.project, "project", project, "with --on compose: name of the project; what an earlier run has left of it is removed")
	f.StringVar(&o.dir, "compose-dir", ".", "with --on compose: folder of docker-compose.yml")
	f.StringVar(&o.logs, "logs", "", "with --on compose: folder for the logs of all containers (default: a temporary one, "+kept+")")
	f.BoolVar(&o.tls, "tls", false, "use TLS on every port of a node, as conclave up --tls or compose/tls.yml do")
	f.StringVar(&o.logLevel, "log-level", "info", "with --on compose: log level of the metas")
}

// validate checks the flags that depend on --on.
func (o *clusterOptions) validate() error {
	if o.on != "compose" {
		return nil
	}
	if _, err := containers.NewProject(containers.ProjectConfig{Name: o.project}); err != nil {
		return fmt.Errorf("--project: %w", err)
	}
	return nil
}

// project is a project of containers for one run. It is empty until its cluster
// is opened.
type project struct {
	*containers.Project
	options  clusterOptions
	logs     string // folder for the logs of all containers
	services []string

	image  string // of the database
	tlsDir string // the certificates of clients; "" without TLS
}

// tool returns the call of the tool that asks these containers.
func (p *project) tool() string {
	call := program()
	if p.tlsDir != "" {
		call += " --tls-dir " + p.tlsDir
	}
	return call + " --meta " + strings.Join(p.Published("meta-"), ",")
}

// containersConfig starts and ends a new project, whose logs are written to the
// folder logs at its end.
func containersConfig(dir, logs string, o clusterOptions) (containers.Config, *project) {
	p := &project{options: o, logs: logs}
	return containers.Config{Dir: dir, Logs: logs, Start: p.start, End: p.end}, p
}

// start starts the nodes and returns when all are ready. If that fails it ends the
// project.
func (p *project) start(ctx context.Context, c testbed.Size, nodes []string, file string) (*containers.Project, outside.Access, error) {
	p.services = append([]string{testbed.Database}, nodes...)
	access, err := p.create(ctx, c, nodes, file)
	if err != nil {
		err = errors.Join(err, p.end(ctx))
	}
	return p.Project, access, err
}

func (p *project) create(ctx context.Context, c testbed.Size, nodes []string, file string) (access outside.Access, err error) {
	o := p.options
	if err := containers.Available(ctx); err != nil {
		return access, err
	}
	env := []string{
		"CONCLAVE_META_TAKEOVER=" + c.Takeover, "CONCLAVE_META_LOG_LEVEL=" + o.logLevel,
		"HEALTH_INTERVAL=1s", // only for the start; the run queries the nodes itself
	}
	for _, n := range nodes { // any free port, because other clusters may use the default ones
		env = append(env, strings.ToUpper(strings.ReplaceAll(n, "-", "_"))+"_PORT=0")
	}
	image, err := databaseImage(ctx, o.dir, o.db)
	if err != nil {
		return access, err
	}
	env = append(env, "DB_IMAGE="+image)
	if err := os.MkdirAll(p.logs, 0o755); err != nil {
		return access, err
	}
	out, err := os.Create(filepath.Join(p.logs, "compose.log"))
	if err != nil {
		return access, err
	}
	defer out.Close()
	more := []string{file}
	if o.tls {
		if p.tlsDir, err = filepath.Abs(composeCertificates(o.dir)); err != nil {
			return access, err
		}
		more = []string{filepath.Join("compose", "tls.yml"), file}
	}
	p.Project, err = containers.NewProject(containers.ProjectConfig{
		Name: o.project, Dir: o.dir, More: more, Env: env, Services: p.services, Out: out,
	})
	if err != nil {
		return access, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*readyWait)
	defer cancel()
	if err := p.Up(ctx); err != nil {
		return access, err
	}
	if access, err = composeAccess(o.dir, o.tls); err != nil {
		return access, err
	}
	if err := p.AwaitReady(ctx, access.HTTP(nil), nodes...); err != nil {
		return access, err
	}
	db, err := p.Container(ctx, testbed.Database)
	p.image = db.Image
	return access, err
}

// end writes the logs of all containers and removes the project, also when the
// run was interrupted. It fails with a leftError.
func (p *project) end(context.Context) error {
	if p.Project == nil { // it was not made
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWait/3)
	defer cancel()
	for _, n := range p.services {
		if log, err := p.Logs(ctx, n, time.Time{}); err == nil { // logs that cannot be read are left out
			_ = os.WriteFile(filepath.Join(p.logs, n+".log"), []byte(log), 0o644)
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	if err := p.Down(ctx); err != nil {
		return &leftError{fmt.Sprintf("the project %s is not taken down: %v", p.Name(), err)}
	}
	return nil
}

// leftError reports what could not be removed.
type leftError struct{ what string }

func (e *leftError) Error() string { return e.what }

// databaseImage returns the image that the project's script compose/db-image chooses
// for a kind of database, or, without one, for the environment; any other word names an image.
func databaseImage(ctx context.Context, dir, kind string) (string, error) {
	script := exec.CommandContext(ctx, filepath.Join("compose", "db-image"))
	switch script.Dir = dir; kind {
	case "":
	case "mysql", "mariadb":
		script.Args, script.Env = append(script.Args, kind), append(os.Environ(), "DB_IMAGE=")
	default:
		return kind, nil
	}
	image, err := script.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = errors.New(strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("choose the image of the database: %w", err)
	}
	return strings.TrimSpace(string(image)), nil
}

// composeAccess returns the token that the project's containers created at their
// first start, and, if they use TLS, the certificates of clients.
func composeAccess(dir string, secured bool) (access outside.Access, err error) {
	token, err := os.ReadFile(filepath.Join(composeSecrets(dir), tokenSecret))
	if err != nil {
		return access, fmt.Errorf("read token of the cluster: %w", err)
	}
	access.Operator = strings.TrimSpace(string(token))
	if secured {
		access.TLS, err = client.TLSFolder(composeCertificates(dir), nil)
	}
	return access, err
}

// composeCertificates returns the folder with the certificates of clients of a project
// that uses TLS.
func composeCertificates(dir string) string {
	return filepath.Join(composeSecrets(dir), "tls", "client")
}

// composeSecrets returns the folder of the secrets of a project with its files in dir.
func composeSecrets(dir string) string {
	return cmp.Or(os.Getenv("CONCLAVE_SECRETS"), filepath.Join(dir, "compose", "secrets"))
}
