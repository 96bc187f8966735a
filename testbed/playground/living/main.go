//go:build js && wasm

package main

import (
	"context"
	"encoding/json"
	"errors"
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
	ctx := context.Background()
	var s *glue.Server
	var world *playground.World // set by the first message
	s = glue.NewServer(map[string]glue.Handler{
		"POST v1/start": func(_ context.Context, body []byte) (any, error) {
			var text string
			if err := json.Unmarshal(body, &text); err != nil {
				return nil, err
			}
			start, err := playground.ParseStart(text)
			if err != nil {
				return nil, err
			}
			if world != nil {
				return nil, errStarted
			}
			world = playground.New(start, func(f func()) { synctest.Test(t, func(*testing.T) { f() }) })
			s.Show(ctx, world)
			return world.Pace(), nil
		},
		"GET v1/pace":  func(context.Context, []byte) (any, error) { return pace(world, nil) },
		"POST v1/pace": func(_ context.Context, body []byte) (any, error) { return pace(world, body) },
	})
	s.Serve(ctx, glue.Messages())
}

var errStarted = errors.New("a worker runs one cluster: begin another one")

// pace changes how time moves, if there is a change, and returns how it does.
func pace(world *playground.World, change []byte) (p playground.Pace, err error) {
	if world == nil {
		return p, errors.New("no cluster runs yet")
	}
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
