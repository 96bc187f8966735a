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

const memoryLimit = 260 << 20 // bytes of Go; the garbage of a long run is collected before it is reached

// main is a test, since only a test has a bubble.
func main() {
	debug.SetMemoryLimit(memoryLimit)
	os.Args = os.Args[:1]
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "playground", F: serve}}, nil, nil)
}

func serve(t *testing.T) {
	start, err := playground.ParseStart(glue.Text("start"))
	if err != nil {
		glue.Fail(err)
		return
	}
	world := playground.New(start, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
	pace := func(_ context.Context, change []byte) (any, error) { return pace(world, change) }
	glue.Serve(context.Background(), world, map[string]glue.Handler{"v1/pace": pace}, glue.Messages())
}

// pace changes how time moves, if there is a change, and returns how it does.
func pace(world *playground.World, change []byte) (p playground.Pace, err error) {
	p = world.Pace()
	p.Step = ""
	switch {
	case change == nil:
	case json.Unmarshal(change, &p) != nil:
		err = fmt.Errorf("%q: want a change of the pace", change)
	case p.Step != "":
		err = world.Step(p.Step)
	default:
		err = world.SetPace(p.Speed, p.Paused)
	}
	return world.Pace(), err
}
