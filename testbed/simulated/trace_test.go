package simulated_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/crc32"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/testbed"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
)

var twice = flag.Int("twice", 20, "number of seeds to play twice and compare")

// TestOneSeedOneTrace plays storms twice, and records the second play. Every segment
// that is sent, with its bytes and its instant, and every line of the history must
// be equal. That
// needs the overlay of the command onetrace and one processor: without the
// overlay select, timers of one instant and maps are random, and a seed
// determines the scenario, its faults and every delay, but not the order of
// events at one instant.
func TestOneSeedOneTrace(t *testing.T) {
	if !simulated.OneTrace {
		t.Skip("needs the overlay: make sim TWICE=20")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as for TestStorms
	initialize(t)
	defer disturb()()
	for seed, played := uint64(1), 0; played < *twice; seed++ {
		if suspendsTogether(scenario.Storm(seed, nil)) {
			t.Logf("seed %d suspends several nodes at once: not compared (docs/track-record.md)", seed)
			continue
		}
		played++
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			first, second := play(t, seed, nil), play(t, seed, &simulated.Recording{})
			for i := range min(len(first), len(second)) {
				if first[i] != second[i] {
					from := max(0, i-5)
					require.Fail(t, "the second play differs", "line %d of %d:\n%s\n--\n%s", i, len(first),
						strings.Join(first[from:i+1], "\n"), strings.Join(second[from:i+1], "\n"))
				}
			}
			assert.Equal(t, len(first), len(second))
			t.Logf("%d lines, checksum %08x", len(first), crc32.ChecksumIEEE([]byte(strings.Join(first, "\n"))))
		})
	}
}

// disturb wakes a goroutine outside of the bubbles all the time, as timers of libraries do
// now and then, until the function that it returns is called.
func disturb() (end func()) {
	ticker, ended, joined := time.NewTicker(100*time.Microsecond), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		for {
			select {
			case <-ticker.C:
			case <-ended:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(ended); <-joined }
}

var initialized bool

// initialize plays two storms, once in a process, the second one with clients without the
// SDK: what is used for the first time draws from the storm's random numbers, and so the
// first play of a seed would differ from the later ones.
func initialize(t *testing.T) {
	if initialized || !simulated.OneTrace {
		return
	}
	initialized = true
	play(t, 1, &simulated.Recording{})
	play(t, 10, nil)
}

// suspendsTogether reports whether a storm suspends two nodes at the same time.
// When they resume, hundreds of goroutines are ready at one instant, and the
// runtime keeps the order of 256 of them at most.
func suspendsTogether(s scenario.Scenario) bool {
	for i, a := range s.Lines {
		for _, b := range s.Lines[i+1:] {
			if a.Step != nil && b.Step != nil && a.Step.Verb == testbed.Pause && b.Step.Verb == testbed.Pause && b.At <= a.At+a.Step.For {
				return true
			}
		}
	}
	return false
}

// play plays the storm of a seed, records it unless the recording is nil, and
// returns what has to be equal.
func play(t *testing.T, seed uint64, recording *simulated.Recording) []string {
	var lines []string
	r, err := simulated.Play(t, scenario.Storm(seed, nil), simulated.Options{Recording: recording, Tap: func(sent simnet.Sent) {
		lines = append(lines, fmt.Sprintf("%d %s > %s %s %q", time.Now().UnixNano(), sent.From, sent.To, sent.What, sent.Data))
	}})
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, simulated.Transcript(&text, r))
	return append(lines, strings.Split(text.String(), "\n")...)
}
