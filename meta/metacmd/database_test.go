package metacmd

import (
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/cli"
	"conclave/internal/node"
	"conclave/meta"
	"conclave/meta/metasql"
	"conclave/testbed/simulated/simnet"
)

// A frozen mysqld: the kernel accepts the connection, and no byte follows.
func TestSilentDatabaseIsGivenUpAfterDBWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
		require.NoError(t, err)
		var silent sync.WaitGroup
		silent.Go(func() {
			var open []net.Conn
			for {
				conn, err := listener.Accept()
				if err != nil {
					break
				}
				open = append(open, conn)
			}
			for _, conn := range open {
				conn.Close()
			}
		})
		defer silent.Wait()
		defer listener.Close()

		printed := newLines()
		d := database{wait: time.Minute}
		n, err := metasql.New(metasql.Config{DSN: "root@tcp(db:3306)/conclave", Config: meta.Config{Config: node.Config{
			Node: conclave.NodeID{Name: "meta", Incarnation: "1"}, Listen: "meta:9615", Insecure: true, Network: network.Host("meta"),
		}}})
		require.NoError(t, err)
		defer n.Close()
		began := time.Now()
		err = d.prepare(t.Context(), n, hclog.New(&hclog.LoggerOptions{Output: printed}))
		assert.ErrorContains(t, err, "was not there within --db-wait 1m0s")
		assert.Equal(t, cli.CodeTimedOut, cli.Code(err))
		assert.InDelta(t, 60, time.Since(began).Seconds(), 2)
		assert.InDelta(t, 11, strings.Count(printed.String(), "the database is not there yet"), 1, "one line every five seconds")
	})
}
