package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/mysqltest"
	"conclave/lab/oversell"
)

func TestLabOversellServe_RefusesInvalidFlags(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown way":  {[]string{"--way", "magic"}, `unknown way "magic" of a served shop (want no-lock, `},
		"a frozen buyer":  {[]string{"--way", "term-paused"}, "term-paused"},
		"a port alone":    {[]string{"--listen", "8080"}, `--listen "8080": want HOST:PORT`},
		"all addresses":   {[]string{"--listen", ":8080"}, `--listen ":8080": want HOST:PORT`},
		"no goods":        {[]string{"--goods", "0"}, "goods number 0 (want 1 to "},
		"no items":        {[]string{"--items", "0"}, "--items is 0: want 1 or more"},
		"less than none":  {[]string{"--items", "-5"}, "--items is -5: want 1 or more"},
		"no such port":    {[]string{"--listen", "127.0.0.1:99999"}, `--listen "127.0.0.1:99999": want HOST:PORT`},
		"no sessions":     {[]string{"--workers", "1"}, "1 workers"},
		"too slow":        {[]string{"--think", "1m"}, "thinking time"},
		"an argument":     {[]string{"now"}, "no argument"},
		"no DSN":          {[]string{"--db", "garbage"}, "missing the slash"},
		"no ZooKeeper":    {[]string{"--zookeeper", "2181"}, "--zookeeper"},
		"an unknown flag": {[]string{"--buyers", "9"}, "buyers"},
	} {
		t.Run(name, func(t *testing.T) {
			r := tool(t, append([]string{"lab", "oversell", "serve"}, c.args...)...)
			assert.Equal(t, exitUsage, r.code, r.stderr)
			assert.Contains(t, r.stderr, c.want)
		})
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	r := tool(t, "lab", "oversell", "serve", "--listen", taken.Addr().String())
	assert.Equal(t, exitFailed, r.code, r.stderr)
	assert.Contains(t, r.stderr, "--listen")
}

// The client of ZooKeeper tries again and again, and would only report that time has
// run out.
func TestLab_ReportsThatZooKeeperCannotBeReached(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := closed.Addr().String()
	require.NoError(t, closed.Close())
	for _, args := range [][]string{{"oversell"}, {"oversell", "serve", "--listen", "127.0.0.1:0"}, {"elections", "--rules", "zookeeper"}} {
		r := tool(t, append(append([]string{"lab"}, args...), "--zookeeper", address)...)
		assert.Equal(t, exitFailed, r.code, r.stderr)
		assert.Contains(t, r.stderr, "--zookeeper: dial tcp "+address+": connect: connection refused")
	}
}

// served runs `lab oversell serve` and returns what it prints when it is ready,
// and how to interrupt it: that returns its exit code and what it prints at its
// end. A test that has failed before that interrupts it as well.
func served(t *testing.T, args ...string) (ready *bufio.Reader, interrupt func() (code int, rest, stderr string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan struct{})
	code := exitFailed
	go func() {
		defer close(ended)
		code = run(ctx, append([]string{"lab", "oversell", "serve", "--listen", "127.0.0.1:0"}, args...), in, &stderr)
		in.Close()
	}()
	t.Cleanup(func() {
		cancel()
		out.Close() // what it still prints has no reader
		<-ended
	})
	ready = bufio.NewReader(out)
	return ready, func() (int, string, string) {
		cancel()
		rest, err := io.ReadAll(ready)
		require.NoError(t, err)
		<-ended
		return code, string(rest), stderr.String()
	}
}

func TestLabOversellServe(t *testing.T) {
	dsn := mysqltest.NewEmbedded(t).DSN
	out, interrupt := served(t, "--db", dsn, "--way", "zk-mutex", "--items", "3", "--goods", "7", "--think", "0s", "--json")
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	var ready serving
	require.NoError(t, json.Unmarshal([]byte(line), &ready), line)
	assert.True(t, strings.HasPrefix(ready.URL, "http://127.0.0.1:"), ready.URL)
	assert.Empty(t, ready.Database, "the DSN of --db is not printed")
	for _, want := range []string{"抢购书籍:7成功", "抢购书籍:7成功", "抢购书籍:7成功", "库存不够"} {
		response, err := http.Get(ready.URL + "/goods-stock/7")
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		assert.Equal(t, want, strings.TrimSpace(string(body)))
	}
	code, rest, stderr := interrupt()
	require.Equal(t, exitDone, code, stderr)
	var sales oversell.Sales
	require.NoError(t, json.Unmarshal([]byte(rest), &sales), rest)
	assert.Equal(t, oversell.Sales{Way: "zk-mutex", GoodsNo: 7, Items: 3, Requests: 4, Succeeded: 3, SoldOut: 1, Deducted: 3}, sales)

	out, interrupt = served(t, "--db", dsn)
	line, err = out.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "Selling 100 items of goods 1, way no-lock.\n", line)
	code, rest, stderr = interrupt()
	require.Equal(t, exitDone, code, stderr)
	assert.Contains(t, rest, "ulimit -n 8192; ab -n 1500 -c 1500")
	assert.Contains(t, rest, "SUCCEEDED")
	assert.Contains(t, rest, "no-lock: nothing was sold")
}
