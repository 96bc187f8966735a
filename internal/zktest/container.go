package zktest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// stay runs the image's own entrypoint from a shell that ends it after half an hour, if the
// test binary could not remove the container.
const stay = `(sleep 1800; kill 1) & run=$(command -v docker-entrypoint.sh) || run=/docker-entrypoint.sh; exec "$run" zkServer.sh start-foreground`

// run starts a container of ZOOKEEPER_IMAGE, and returns before the server answers.
func run() (container, addr string, err error) {
	image := cmp.Or(os.Getenv("ZOOKEEPER_IMAGE"), "zookeeper-local:3.8")
	if _, err := docker("image", "inspect", "--format", "{{.Id}}", image); err != nil {
		return "", "", fmt.Errorf("no image %s (build it with .ci/zookeeper-image, or name another with ZOOKEEPER_IMAGE): %w", image, err)
	}
	container, err = docker("run", "--detach", "--rm", "--label", "conclave=zktest", "--publish", "127.0.0.1::2181",
		"--env", fmt.Sprintf("ZOO_TICK_TIME=%d", Tick.Milliseconds()), "--env", "ZOO_MAX_CLIENT_CNXNS=0",
		"--env", "ZOO_4LW_COMMANDS_WHITELIST=srvr,wchs", "--env", "JVMFLAGS=-Xmx160m",
		"--entrypoint", "sh", image, "-c", stay)
	if err != nil {
		return "", "", err
	}
	addr, err = docker("port", container, "2181/tcp")
	return container, addr, err
}

// docker runs a command of the Docker client and returns its output.
func docker(args ...string) (string, error) {
	out, err := exec.Command("docker", args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", args[0], err, text)
	}
	return text, nil
}
