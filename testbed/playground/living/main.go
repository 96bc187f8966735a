//go:build js && wasm

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"

	_ "conclave/internal/bubble"
	"conclave/testbed/playground"
	"conclave/testbed/playground/glue"
)

// main is a test, since only a test has a bubble.
func main() {
	debug.SetMemoryLimit(260 << 20) // of Go; the garbage of a long run is collected before it is reached
	os.Args = os.Args[:1]
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "playground", F: serve}}, nil, nil)
}

func serve(t *testing.T) {
	start, err := playground.ParseStart(glue.Text("start"))
	if err != nil {
		glue.Fail(err)
		return
	}
	world := playground.New(start, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
	pace := func(_ context.Context, change []byte) (any, error) {
		p := world.Pace()
		if change == nil {
			return p, nil
		}
		p.Step = ""
		if err := json.Unmarshal(change, &p); err != nil {
			return nil, fmt.Errorf("decode a change of the pace: %w", err)
		}
		err := world.SetPace(p)
		return world.Pace(), err
	}
	glue.Serve(context.Background(), world, map[string]glue.Handler{"v1/pace": pace}, glue.Messages())
}
