package zktest

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
)

// images are the images if ZOOKEEPER_IMAGE names none: the first one that the
// engine has. No image is pulled.
var images = []string{"zookeeper:3.8", "zookeeper-local:3.8"}

// lifetime is the time after which the engine ends a container that the test
// binary did not remove.
const lifetime = 30 * 60 // seconds

// stay runs the image's own entrypoint from a shell. Expire begins with a
// SIGTERM, which the kernel does not deliver to the first process of a
// container unless it handles the signal: the shell does not, Java does.
const stay = `run=$(command -v docker-entrypoint.sh) || run=/docker-entrypoint.sh; "$run" "$@"; exit $?`

// container is a server that this process has started.
type container struct {
	pool  *dockertest.Pool
	res   *dockertest.Resource
	image string
	addr  string
}

// run starts a container, and returns before the server answers.
func run() (*container, error) {
	pool, err := dockertest.NewPool("")
	if err != nil {
		return nil, fmt.Errorf("no Docker engine: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := pool.Client.PingWithContext(ctx); err != nil {
		return nil, fmt.Errorf("no Docker engine answers at %s: %w", pool.Client.Endpoint(), err)
	}
	image, err := choose(pool)
	if err != nil {
		return nil, err
	}
	repository, tag := image, "latest"
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') { // a colon before a slash belongs to a port
		repository, tag = image[:at], image[at+1:]
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	addr := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	name := fmt.Sprintf("conclave-zookeeper-%d-%s", os.Getpid(), port)
	res, err := pool.RunWithOptions(&dockertest.RunOptions{
		Name:       name,
		Repository: repository,
		Tag:        tag,
		Env: []string{fmt.Sprintf("ZOO_TICK_TIME=%d", Tick.Milliseconds()), "ZOO_MAX_CLIENT_CNXNS=0",
			"ZOO_4LW_COMMANDS_WHITELIST=srvr,wchs", "JVMFLAGS=-Xmx160m"},
		Entrypoint:   []string{"sh", "-c", stay, "sh"},
		Cmd:          []string{"zkServer.sh", "start-foreground"}, // the official image's
		ExposedPorts: []string{"2181/tcp"},
		PortBindings: map[docker.Port][]docker.PortBinding{"2181/tcp": {{HostIP: "127.0.0.1", HostPort: port}}},
		Labels:       map[string]string{"conclave": "zktest"},
	}, func(host *docker.HostConfig) {
		host.AutoRemove = true
		host.PublishAllPorts = false // its other ports must not be open to other machines
	})
	if err != nil {
		_ = pool.RemoveContainerByName(name) // a container that was created but not started does not remove itself
		return nil, fmt.Errorf("start image %s: %w", image, err)
	}
	c := &container{pool: pool, res: res, image: image, addr: addr}
	return c, res.Expire(lifetime)
}

// choose returns the image that ZOOKEEPER_IMAGE names, or the first of images
// that the engine has.
func choose(pool *dockertest.Pool) (string, error) {
	if image := os.Getenv("ZOOKEEPER_IMAGE"); image != "" {
		return image, nil
	}
	for _, image := range images {
		if _, err := pool.Client.InspectImage(image); err == nil {
			return image, nil
		}
	}
	return "", fmt.Errorf("the Docker engine has no image %s: build the second with .ci/zookeeper-image, or name another with ZOOKEEPER_IMAGE",
		strings.Join(images, " or "))
}

// remove removes the container and its data.
func (c *container) remove() error {
	err := c.pool.Purge(c.res)
	c.pool.Client.HTTPClient.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("remove container %s: %w", c.res.Container.Name, err)
	}
	return nil
}
