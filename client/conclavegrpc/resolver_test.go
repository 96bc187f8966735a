package conclavegrpc

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"conclave"
	"conclave/client"
)

func TestParse(t *testing.T) {
	for target, want := range map[string]string{
		"conclave:///com.example.Greeter":                  "com.example.Greeter",
		"conclave:///a/b?group=g&instance=i":               "a/b",
		"conclave:com.example.Greeter":                     "names no name",
		"conclave:///":                                     "names no name",
		"conclave://127.0.0.1:9603/com.example.Greeter":    "names no session",
		"conclave:///com.example.Greeter?zone=z":           "zone: want group or instance",
		"conclave:///com.example.Greeter?group=g&group=g2": "group: want group or instance, each once",
		"conclave:///com.example.Greeter?group=%zz":        "invalid URL escape",
	} {
		u, err := url.Parse(target)
		require.NoError(t, err)
		name, opts, err := parse(*u)
		if err != nil {
			assert.ErrorContains(t, err, want, target)
			continue
		}
		assert.Equal(t, want, name, target)
		assert.Len(t, opts, len(u.Query()), target)
	}
}

// connection records what a resolver gives it.
type connection struct {
	resolver.ClientConn
	state resolver.State
}

func (c *connection) UpdateState(s resolver.State) error {
	c.state = s
	return nil
}

// The values of a name are addresses; of two publishers with the same one there is one.
func TestPush_TakesEachAddressOnce(t *testing.T) {
	conn := &connection{}
	push(conn, conclave.Datum{Values: []string{"10.0.0.2:80", "no address", "10.0.0.1:80", "10.0.0.2:80", "[::1]:80"}})
	var addresses []string
	for _, e := range conn.state.Endpoints {
		require.Len(t, e.Addresses, 1)
		addresses = append(addresses, e.Addresses[0].Addr)
	}
	assert.Equal(t, []string{"10.0.0.1:80", "10.0.0.2:80", "[::1]:80"}, addresses)
	push(conn, conclave.Datum{})
	assert.Empty(t, conn.state.Endpoints, "a service without servers has none")
}

// run runs a program until it ends, and returns what it printed.
func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", command, out)
	return string(out)
}

// On a real cluster: a refused token is the error of a call, and no call
// fails while servers are killed and stopped, and the leader and a session are killed.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Log("short: without real processes")
		return
	}
	dir := t.TempDir()
	run(t, "../..", "go", "build", "-o", dir+"/", "./cmd/conclave", "./cmd/meta", "./cmd/session", "./cmd/data", "./cmd/devdb")
	run(t, ".", "go", "build", "-o", dir+"/", "./example")
	conclave, folder := filepath.Join(dir, "conclave"), filepath.Join(dir, "cluster")
	var nodes []struct{ Name, Role, HTTP string }
	out := run(t, dir, conclave, "--dir", folder, "--json", "up", "--detach")
	t.Cleanup(func() { _ = exec.Command(conclave, "--dir", folder, "down", "--now").Run() })
	require.NoError(t, json.Unmarshal([]byte(out), &nodes))
	var sessions []string
	for _, n := range nodes {
		if n.Role == "session" {
			sessions = append(sessions, n.HTTP)
		}
	}
	require.Len(t, sessions, 2)

	t.Run("a refusal is reported", func(t *testing.T) {
		c, err := client.New(client.Config{Sessions: sessions, Token: "no token of this cluster", GiveUp: true})
		require.NoError(t, err)
		c.Start()
		conn, err := grpc.NewClient("conclave:///svc", grpc.WithResolvers(NewBuilder(c)), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		assert.Equal(t, codes.Unavailable, status.Code(err), err)
		assert.ErrorContains(t, err, "unauthorized")
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(ctx))
	})
	t.Run("no call fails", func(t *testing.T) {
		killed := make(chan error, 1)
		go func() {
			err := error(nil)
			for _, node := range []string{"leader", "session-1"} {
				time.Sleep(2 * time.Second) // of calls
				if err == nil {
					err = exec.CommandContext(t.Context(), conclave, "--dir", folder, "kill", node).Run()
				}
			}
			killed <- err
		}()
		out := run(t, dir, filepath.Join(dir, "example"), "--sessions", strings.Join(sessions, ","), "--token-file", filepath.Join(folder, "app-token"), "--for", "8s")
		assert.NoError(t, <-killed)
		assert.Contains(t, out, "; 0 failed")
		t.Log(out)
	})
}
