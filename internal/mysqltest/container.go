package mysqltest

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/certs"
)

// images are the images of a kind if its variable names none: the first one
// that the engine has. No image is pulled.
var images = map[Kind][]string{
	MySQL:   {"mysql:8.4", "mysql-local:9"},
	MariaDB: {"mariadb:10.11", "mariadb-local:10.11"},
}

// options make a server small (MySQL needs a quarter of a gigabyte instead of
// half of one) and let it commit without waiting for the disk, which loses
// nothing when the process is killed. Both servers write a binary log in row
// format.
var options = map[Kind][]string{
	MySQL: {"--performance-schema=OFF", "--mysqlx=OFF", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"},
	MariaDB: {"--log-bin=binlog", "--binlog-format=ROW", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"},
}

// again runs the image's own entrypoint, and runs it again when its server was
// killed, or stopped for a restart. (A restart by the engine can race with its removal of
// containers that have ended.) slay kills the server from inside the container, and stop
// stops it for a restart, and waits until its process has ended.
const (
	again = `mkdir -p /tmp/tls && cd /tmp/tls && echo "$TLS_CA" >ca.pem && echo "$TLS_CERT" >cert.pem && echo "$TLS_KEY" >key.pem && cd / || exit
while docker-entrypoint.sh "$@"; [ $? -eq 137 ] || [ -e /tmp/again ]; do rm -f /tmp/again; done`
	stop = `touch /tmp/again; for p in /proc/[0-9]*; do case $(cat $p/comm) in mysqld|mariadbd) kill ${p#/proc/}; while [ -d $p ]; do sleep 0.1; done;; esac; done`
	slay = `for p in /proc/[0-9]*; do case $(cat $p/comm) in mysqld|mariadbd) kill -9 ${p#/proc/};; esac; done`
)

// lifetime returns the time after which the engine ends a container that the test
// binary did not remove: a minute after the limit with which the tests were started
// (-timeout), or a day if they have none.
func lifetime() time.Duration {
	if set := flag.Lookup("test.timeout"); set != nil {
		if limit, err := time.ParseDuration(set.Value.String()); err == nil && limit > 0 {
			return limit + time.Minute
		}
	}
	return 24 * time.Hour
}

// password is root's. The port is bound to loopback, and the server runs for
// minutes.
const password = "conclave"

// container is a server that this process has started.
type container struct {
	pool  *dockertest.Pool
	res   *dockertest.Resource
	image string
	addr  string // host:port on loopback, also after a restart
	alone bool   // no other test uses it: see NewAlone
	ca    []byte // PEM: that of the server's certificate

	root    *stdsql.DB // the administrator's connections
	version string
}

// String returns what the server is, for a message.
func (c *container) String() string { return c.version + ", image " + c.image }

// issueCerts returns the environment with a new certificate for the server, which
// is valid for loopback, and its CA.
func (c *container) issueCerts() (environment [3]string, err error) {
	dir, err := os.MkdirTemp("", "mysqltest-")
	if err != nil {
		return environment, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := errors.Join(certs.NewCA(dir, lifetime()), certs.Issue(dir, []string{"127.0.0.1"}, lifetime())); err != nil {
		return environment, err
	}
	folder := filepath.Join(dir, string(conclave.RoleMeta)) // the role does not matter here
	for i, f := range []struct{ variable, file string }{{"TLS_CA", certs.CAFile}, {"TLS_CERT", certs.CertFile}, {"TLS_KEY", certs.KeyFile}} {
		text, err := os.ReadFile(filepath.Join(folder, f.file))
		if err != nil {
			return environment, err
		}
		environment[i] = f.variable + "=" + string(text)
		if i == 0 {
			c.ca = text
		}
	}
	return environment, nil
}

// engine connects to the Docker engine, and chooses the image of a kind.
func engine(kind Kind) (*container, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(ctx); err != nil {
		return nil, fmt.Errorf("no Docker engine answers at %s: %w", pool.Client.Endpoint(), err)
	}
	image, err := choose(pool, kind)
	return &container{pool: pool, image: image}, err
}

// startTimeout is how long a server may take to start.
const startTimeout = 5 * time.Minute

// dataDir is where a server has its data, and where the small disk is mounted.
const dataDir = "/var/lib/mysql"

// run starts a container, and returns when the server answers.
func run(kind Kind) (*container, error) { return runAs(kind, false) }

// runAs is run, also of one for NewAlone.
func runAs(kind Kind, alone bool) (*container, error) {
	c, err := engine(kind)
	if err != nil {
		return nil, err
	}
	c.alone = alone
	secured, err := c.issueCerts()
	if err != nil {
		return nil, err
	}
	command, script := []string{"mysqld", "--ssl-ca=/tmp/tls/ca.pem", "--ssl-cert=/tmp/tls/cert.pem", "--ssl-key=/tmp/tls/key.pem"}, again
	if alone { // MySQL keeps to a skip-name-resolve in its file, whatever its command says
		script = "sed -i /skip-name-resolve/d /etc/my.cnf\n" + again
		command = append(command, "--skip-name-resolve=OFF", "--host-cache-size=128")
	}
	if err := c.start(kind, script, secured[:], append(command, options[kind]...)); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", c.image, err), c.remove())
	}
	return c, nil
}

// connect waits until the server answers, and reads its version.
func (c *container) connect() (err error) {
	if c.root, err = open(c.config()); err != nil {
		return err
	}
	c.root.SetConnMaxLifetime(10 * time.Second)
	if err := ready(c.root, startTimeout); err != nil {
		return err
	}
	return c.root.QueryRow("SELECT VERSION()").Scan(&c.version)
}

// start runs a script and its arguments in the container.
func (c *container) start(kind Kind, script string, environment, command []string) (err error) {
	repository, tag := docker.ParseRepositoryTag(c.image)
	for try := 1; ; try++ {
		// A fixed port stays the same after a restart.
		if c.addr, err = freePort(); err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(c.addr)
		name := fmt.Sprintf("conclave-%s-%d-%s", kind, os.Getpid(), port)
		c.res, err = c.pool.RunWithOptions(&dockertest.RunOptions{
			Name:         name,
			Repository:   repository,
			Tag:          tag,
			Env:          append([]string{"MYSQL_ROOT_PASSWORD=" + password, "MARIADB_ROOT_PASSWORD=" + password}, environment...),
			Entrypoint:   []string{"sh", "-c", script, "sh"},
			Cmd:          command,
			ExposedPorts: []string{"3306/tcp"},
			PortBindings: map[docker.Port][]docker.PortBinding{"3306/tcp": {{HostIP: "127.0.0.1", HostPort: port}}},
			Labels:       map[string]string{"conclave": "mysqltest"},
		}, func(host *docker.HostConfig) {
			host.AutoRemove = true
			host.PublishAllPorts = false // its other ports must not be open to other machines
			if c.alone {
				host.Tmpfs = map[string]string{dataDir: "size=768m"}
				host.ExtraHosts = []string{"clients:host-gateway"} // the server counts the errors of a host that has a name
			}
		})
		if err == nil {
			return c.res.Expire(uint(lifetime().Seconds()))
		}
		_ = c.pool.RemoveContainerByName(name) // one that was created but not started does not remove itself
		if !taken(err) || try == 3 {
			return fmt.Errorf("start image %s: %w", c.image, err)
		}
	}
}

// NewCA returns a CA in PEM that has signed the certificate of no server.
func NewCA(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, certs.NewCA(dir, lifetime()))
	text, err := os.ReadFile(filepath.Join(dir, certs.CAFile))
	require.NoError(t, err)
	return text
}

// choose returns the image that the kind's variable names, or the first of
// images that the engine has.
func choose(pool *dockertest.Pool, kind Kind) (string, error) {
	name := strings.ToUpper(string(kind)) + "_IMAGE"
	if image := os.Getenv(name); image != "" {
		return image, nil
	}
	for _, image := range images[kind] {
		if _, err := pool.Client.InspectImage(image); err == nil {
			return image, nil
		}
	}
	return "", fmt.Errorf("the Docker engine has no image %s: build the second with .ci/mysql-image, or name another with %s",
		strings.Join(images[kind], " or "), name)
}

// freePort returns a loopback address on which no process listens at the
// moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// taken reports whether err means that another container or process is using
// the port.
func taken(err error) bool {
	text := err.Error()
	return strings.Contains(text, "port is already allocated") || strings.Contains(text, "address already in use")
}

// config returns the configuration of the administrator's connections.
func (c *container) config() *mysql.Config {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr = "root", password, "tcp", c.addr
	return config
}

// sh runs a command in the container.
func (c *container) sh(command string) error {
	var stderr bytes.Buffer
	code, err := c.res.Exec([]string{"sh", "-c", command}, dockertest.ExecOptions{StdErr: &stderr})
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit code %d: %s", command, code, strings.TrimSpace(stderr.String()))
	}
	return err
}

// pause suspends the container.
func (c *container) pause() (resume func(), err error) {
	if err := c.pool.Client.PauseContainer(c.res.Container.ID); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		if err := c.pool.Client.UnpauseContainer(c.res.Container.ID); err != nil {
			panic("mysqltest: cannot resume a paused container: " + err.Error()) // later tests would hang
		}
	}), nil
}

// remove closes the connections, and removes the container and its data.
func (c *container) remove() error {
	if c.root != nil {
		c.root.Close()
	}
	err := c.pool.Purge(c.res)
	c.pool.Client.HTTPClient.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("remove container %q: %w", c.res.Container.Name, err)
	}
	return nil
}
