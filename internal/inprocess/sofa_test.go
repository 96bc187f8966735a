package inprocess

import (
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/session/sofa"
)

// An idle connection of a client of SOFARegistry keeps as much stack as it uses while it
// waits. That of a reader of messages would be 8 KiB, more than all the rest.
func TestSofa_IdleConnectionKeepsLittleStack(t *testing.T) {
	if info, _ := debug.ReadBuildInfo(); slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Log("not with the race detector, which takes stack of its own")
		return
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().String()
	require.NoError(t, ln.Close())
	nodes, err := New(Config{Metas: 1, Datas: 1, Sessions: 1, Sofa: map[string]string{"session-1": address}})
	require.NoError(t, err)
	defer nodes.Close()
	start(t, nodes)

	const class = "com.alipay.sofa.registry.core.model.SubscriberRegister"
	open := func(i int) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close() })
		register := sofa.Encode(&sofa.Object{
			Class:  &sofa.Class{Name: class, Fields: []string{"dataId", "registId", "eventType", "version", "scope"}},
			Values: []any{"svc", fmt.Sprint("id-", i), "REGISTER", int64(1), "global"},
		})
		if _, err := conn.Write(sofa.Frame{Type: sofa.Request, Command: 1, ID: 1, Codec: 1, Timeout: 1000, Class: class, Content: register}.Append(nil)); err != nil {
			return err
		}
		_, err = sofa.ReadFrame(conn) // the answer, or the list
		return err
	}
	stacks := func() int {
		for range 4 { // each shrinks a stack by half, at most
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.StackInuse)
	}
	const n = 500
	before, goroutines := stacks(), runtime.NumGoroutine()
	for i := range n {
		require.NoError(t, open(i))
	}
	after, all := stacks(), runtime.NumGoroutine()-goroutines
	require.Greater(t, all, n/2, "connections that are open: clients that answer no ping lose theirs")
	assert.Less(t, (after-before)/all, 5<<10)
}
