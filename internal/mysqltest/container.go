package mysqltest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// images are what a kind runs when its variable names none: the first that is here.
// None is fetched unasked.
var images = map[Kind][]string{
	MySQL:   {"mysql:8.4", "mysql-local:9"},
	MariaDB: {"mariadb:10.11", "mariadb-local:10.11"},
}

// options make a server small (MySQL takes a quarter of a gigabyte and not a half),
// and spare it waiting for the disk: a killed process loses nothing by that, and a
// lost machine takes the test along. Both write a binary log, row by row.
var options = map[Kind][]string{
	MySQL: {"--performance-schema=OFF", "--mysqlx=OFF", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"},
	MariaDB: {"--log-bin=binlog", "--binlog-format=ROW", "--innodb-buffer-pool-size=64M",
		"--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"},
}

// again runs the image's own entrypoint, and again when its server was killed. (The
// engine's own restart can meet its removal of containers that have ended, and then
// there is none.) slay kills the server, from inside.
const (
	again = `while docker-entrypoint.sh "$@"; [ $? -eq 137 ]; do :; done`
	slay  = `for p in /proc/[0-9]*; do case $(cat $p/comm) in mysqld|mariadbd) kill -9 ${p#/proc/};; esac; done`
)

// lifetime is when the engine ends a container whose test binary did not.
const lifetime = 30 * 60 // seconds

// password of root. The port is bound to loopback, and the server lives for minutes.
const password = "conclave"

// container is a server that this process has started.
type container struct {
	pool  *dockertest.Pool
	res   *dockertest.Resource
	image string
	addr  string // host:port on loopback, also after a restart
}

// run starts a container; it returns before the server answers.
func run(kind Kind) (*container, error) {
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
	if err != nil {
		return nil, err
	}
	repository, tag := split(image)
	c := &container{pool: pool, image: image}
	for try := 1; ; try++ {
		// A port that is fixed stays the same over a restart.
		if c.addr, err = freePort(); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(c.addr)
		c.res, err = pool.RunWithOptions(&dockertest.RunOptions{
			Name:         fmt.Sprintf("conclave-%s-%d-%s", kind, os.Getpid(), port),
			Repository:   repository,
			Tag:          tag,
			Env:          []string{"MYSQL_ROOT_PASSWORD=" + password, "MARIADB_ROOT_PASSWORD=" + password},
			Entrypoint:   []string{"sh", "-c", again, "sh"},
			Cmd:          append([]string{"mysqld"}, options[kind]...),
			ExposedPorts: []string{"3306/tcp"},
			PortBindings: map[docker.Port][]docker.PortBinding{"3306/tcp": {{HostIP: "127.0.0.1", HostPort: port}}},
			Labels:       map[string]string{"conclave": "mysqltest"},
		}, func(host *docker.HostConfig) {
			host.AutoRemove = true
			host.PublishAllPorts = false // else its other ports would be open to everybody
		})
		if err == nil {
			break
		}
		// Made, and not started: it does not remove itself.
		_ = pool.RemoveContainerByName(fmt.Sprintf("conclave-%s-%d-%s", kind, os.Getpid(), port))
		if !taken(err) || try == 3 {
			return nil, fmt.Errorf("start image %s: %w", image, err)
		}
	}
	return c, c.res.Expire(lifetime)
}

// choose is the image that the kind's variable names, or the first of its own that
// the engine has.
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
	return "", fmt.Errorf("the Docker engine has no image %s: .ci/mysql-image builds the second, %s names another",
		strings.Join(images[kind], " or "), name)
}

// split takes an image's name apart; a colon before a slash belongs to a port.
func split(image string) (repository, tag string) {
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[:at], image[at+1:]
	}
	return image, "latest"
}

// freePort is an address of loopback on which nobody listens just now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// taken says that somebody was quicker to listen at the port: another container, or
// any process of this machine.
func taken(err error) bool {
	said := err.Error()
	return strings.Contains(said, "port is already allocated") || strings.Contains(said, "address already in use")
}

// config is the administrator's.
func (c *container) config() *mysql.Config {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.Net, config.Addr = "root", password, "tcp", c.addr
	return config
}

// pause freezes the container.
func (c *container) pause() (resume func(), err error) {
	if err := c.pool.Client.PauseContainer(c.res.Container.ID); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() {
		if err := c.pool.Client.UnpauseContainer(c.res.Container.ID); err != nil {
			panic("mysqltest: a paused container cannot be resumed: " + err.Error()) // nothing works after that
		}
	}), nil
}

// restart kills the server's process; the container starts it again.
func (c *container) restart() error {
	var said bytes.Buffer
	code, err := c.res.Exec([]string{"sh", "-c", slay}, dockertest.ExecOptions{StdErr: &said})
	if err == nil && code != 0 {
		err = fmt.Errorf("kill the server: exit code %d: %s", code, said.String())
	}
	return err
}

// remove ends the container, and its data.
func (c *container) remove() error {
	err := c.pool.Purge(c.res)
	c.pool.Client.HTTPClient.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("remove container %q: %w", c.res.Container.Name, err)
	}
	return nil
}
