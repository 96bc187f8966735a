package simulated_test

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/check"
	"conclave/testbed/scenario"
	"conclave/testbed/simulated"
	"conclave/testbed/simulated/simnet"
)

// failover is the scenario of the diagram: the leader is killed while two clients
// keep changing what they publish.
const failover = `clients 2 names 1 every 30ms
at 1530ms kill leader
at 1530ms expect new leader within 300ms
until 2s
figure leaderless`

// diagramFile is the drawing of it in README.md.
const diagramFile = "../../docs/failover.svg"

var writeDiagram = flag.Bool("diagram", false, "write "+diagramFile)

// TestDiagram plays the scenario and draws its failover. The committed drawing
// must be what is drawn from the record that it contains. With the overlay of the
// command onetrace, where one seed gives one trace, it must also be the drawing
// of this run; without, the run must have the same steps.
func TestDiagram(t *testing.T) {
	committed, err := os.ReadFile(diagramFile)
	if !*writeDiagram {
		require.NoError(t, err, "write it: make diagram")
		assert.Equal(t, string(committed), draw(parseRecord(t, string(committed))), "write it again: make diagram")
	}
	if raceDetector {
		t.Skip("the run is not played under the race detector")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	playFailover(t) // so that what is initialized once in a process is initialized
	run := playFailover(t)
	switch {
	case *writeDiagram && !simulated.OneTrace:
		t.Fatal("the overlay does not fit the installed Go")
	case *writeDiagram:
		require.NoError(t, os.WriteFile(diagramFile, []byte(draw(run)), 0o644))
	case simulated.OneTrace:
		assert.Equal(t, string(committed), draw(run), "the run has changed; write it again: make diagram")
	default:
		assert.Len(t, run.steps, len(parseRecord(t, string(committed)).steps))
	}
}

// drawing is what is drawn: the steps of one failover, in order, between lanes.
type drawing struct {
	lanes []string // the node's name, and what it is
	steps []step
}

// step is one line of the diagram.
type step struct {
	at       time.Duration // since the kill
	from, to string        // lanes; equal for what happens inside a node
	text     string
}

// playFailover plays the scenario and returns the steps of the failover.
func playFailover(t *testing.T) drawing {
	s, err := scenario.Parse("failover", failover)
	require.NoError(t, err)
	s.Cluster.Seed = 1
	type segment struct {
		at time.Time
		simnet.Sent
	}
	var sent []segment
	r, err := simulated.Play(t, s, simulated.Options{Tap: func(x simnet.Sent) {
		if strings.HasPrefix(x.From, "db:") {
			x.Data = bytes.Clone(x.Data)
			sent = append(sent, segment{time.Now(), x})
		}
	}})
	require.NoError(t, err)
	require.Empty(t, r.Problems())
	entries := r.History.Entries

	// The first entry from `from` on that fits, and the last before it.
	first := func(from int, what string, fits func(check.Entry) bool) int {
		i := slices.IndexFunc(entries[from:], fits)
		require.GreaterOrEqual(t, i, 0, "no %s", what)
		return from + i
	}
	last := func(before int, what string, fits func(check.Entry) bool) int {
		for i := before - 1; i >= 0; i-- {
			if fits(entries[i]) {
				return i
			}
		}
		require.Fail(t, "no "+what)
		return 0
	}
	claim := func(kind trace.Kind, node string, fits func(trace.Claim) bool) func(check.Entry) bool {
		return func(e check.Entry) bool {
			return e.Event != nil && e.Event.Kind == kind && (node == "" || e.Event.Node.Name == node) && (fits == nil || fits(*e.Event))
		}
	}
	op := func(kind check.OpKind, client string) func(check.Entry) bool {
		return func(e check.Entry) bool {
			return e.Op != nil && e.Op.Kind == kind && (client == "" || e.Op.Client == client)
		}
	}

	kill := first(0, "kill", func(e check.Entry) bool { return e.Fault != nil && e.Fault.Verb == testbed.Kill })
	led := first(kill, "next leader", claim(trace.Led, "", nil))
	publish := first(kill, "publish", op(check.OpPublish, ""))
	old, next, term := entries[kill].Fault.Node, entries[led].Event.Node.Name, entries[led].Event.Term
	version := entries[publish].Op.Version
	accepted := first(publish, "acceptance", claim(trace.Accepted, "", func(c trace.Claim) bool { return c.Version == version }))
	stored := first(accepted, "storing", claim(trace.Stored, "", func(c trace.Claim) bool {
		return c.Subject == entries[accepted].Event.Subject && c.Version == version
	}))
	client, session, data := entries[publish].Op.Client, entries[accepted].Event.Node.Name, entries[stored].Event.Node.Name
	pushed := first(publish, "push", func(e check.Entry) bool {
		return op(check.OpPush, client)(e) && slices.Contains(e.Op.Values, entries[publish].Op.Values[0])
	})

	const db = "MySQL"
	out := drawing{lanes: []string{client + ": publishes and subscribes", session + ": session", data + ": slot leader", next + ": next leader", db + ": the lock row", old + ": leader of term " + fmt.Sprint(term-1)}}
	add := func(at time.Duration, from, to, text string, values ...any) {
		out.steps = append(out.steps, step{at - entries[kill].At, from, to, fmt.Sprintf(text, values...)})
	}
	at := func(i int) time.Duration { return entries[i].At }

	beat := last(kill, "beat", claim(trace.Renewed, old, nil))
	add(at(beat), old, db, "beat %d: one row changed", entries[beat].Event.Beat+1)
	add(at(last(kill, "push", op(check.OpPush, client))), session, client, "push")
	add(at(kill), old, old, "kill -9")
	for _, x := range sent { // what the database sends after the kill
		if after := x.at.Sub(r.History.Began); after < at(kill) {
			continue
		} else if strings.HasPrefix(x.To, old+":") && len(out.steps) == 3 {
			add(after, db, db, "connection lost: frees the leader's lock")
		} else if strings.HasPrefix(x.To, next+":") && bytes.Contains(x.Data, []byte("taken")) {
			add(after, db, next, "GET_LOCK: acquired")
			break
		}
	}
	looked := first(kill, "reading", claim(trace.Looked, next, nil))
	add(at(looked), db, next, "reads term %d, beat %d", entries[looked].Event.Term, entries[looked].Event.Beat)
	add(at(first(kill, "swap", claim(trace.Swapping, next, nil))), next, db, "swap: term = %d", term)
	add(at(first(kill, "win", claim(trace.Landed, next, func(c trace.Claim) bool { return c.Subject == "win" }))), db, next, "one row changed")
	add(at(led), next, next, "leads term %d", term)
	for _, node := range []string{data, session} {
		admits := func(c trace.Claim) bool { return c.Term == term }
		add(at(first(led, "admission", claim(trace.Admitted, node, admits))), next, node, "term %d: refuse %d", term, term-1)
	}
	seal := first(led, "seal", claim(trace.Landed, next, func(c trace.Claim) bool { return c.Subject == "seal" }))
	add(at(seal), next, db, "seal: term %d is closed", term-1)
	for _, node := range []string{data, session} {
		took := first(seal, "table", claim(trace.Took, node, nil))
		add(at(took), next, node, "slot table %s", entries[took].Event.Epoch)
	}
	add(at(publish), client, session, "publish")
	add(at(stored), session, data, "write: stored")
	add(at(pushed), session, client, "push")
	slices.SortStableFunc(out.steps, func(a, b step) int { return int(a.at - b.at) })
	return out
}

// text returns the record as lines of text, which parseRecord reads again.
func (r drawing) text() string {
	var b strings.Builder
	for _, lane := range r.lanes {
		fmt.Fprintf(&b, "%s\n", lane)
	}
	for _, s := range r.steps {
		fmt.Fprintf(&b, "%+.3f ms | %s | %s | %s\n", float64(s.at.Microseconds())/1000, s.from, s.to, s.text)
	}
	return b.String()
}

// parseRecord reads the record that a drawing contains as its description.
func parseRecord(t *testing.T, svg string) (r drawing) {
	_, text, _ := strings.Cut(svg, "<desc>\n")
	text, _, found := strings.Cut(text, "</desc>")
	require.True(t, found, "the drawing has a description")
	for line := range strings.Lines(html.UnescapeString(text)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
		if len(parts) == 1 {
			r.lanes = append(r.lanes, parts[0])
			continue
		}
		require.Len(t, parts, 4, line)
		at, err := time.ParseDuration(strings.ReplaceAll(parts[0], " ", ""))
		require.NoError(t, err)
		r.steps = append(r.steps, step{at, parts[1], parts[2], parts[3]})
	}
	return r
}

// The measures of the drawing, in pixels.
const (
	firstLane, laneWidth = 160, 172
	firstRow, rowHeight  = 150, 34
)

// draw returns the record as a sequence diagram: a lane for each node, and one
// row for each step. It is readable on light and on dark pages.
func draw(r drawing) string {
	x := map[string]int{}
	for i, lane := range r.lanes {
		name, _, _ := strings.Cut(lane, ":")
		x[name] = firstLane + i*laneWidth
	}
	name := func(i int) string { return strings.SplitN(r.lanes[i], ":", 2)[0] }
	next, old := name(3), name(5)
	y := func(i int) int { return firstRow + i*rowHeight }
	row := func(text string) int {
		return slices.IndexFunc(r.steps, func(s step) bool { return strings.HasPrefix(s.text, text) })
	}
	killed, led := row("kill"), row("leads")
	width, height := firstLane+len(r.lanes)*laneWidth-60, y(len(r.steps))+40

	var b strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&b, format+"\n", values...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="13">`, width, height)
	line(`<title>The split second of a failover</title>`)
	line("<desc>\n%s</desc>", html.EscapeString(r.text()))
	line(`<style>
  .page { fill: #ffffff } .ink { fill: #1f2328 } .dim { fill: #59636e } .halo { stroke: #ffffff; stroke-width: 3; paint-order: stroke }
  .lane { stroke: #c4ccd4 } .leads { stroke: #1a7f37 } .arrow { stroke: #0969da; stroke-width: 1.5 } .head { fill: #0969da }
  .gap { fill: #cf222e; fill-opacity: .08 } .bad { fill: #cf222e } .cross { stroke: #cf222e; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .ink { fill: #f0f6fc } .dim { fill: #9198a1 } .halo { stroke: #0d1117 }
    .lane { stroke: #3d444d } .leads { stroke: #3fb950 } .arrow { stroke: #4493f8 } .head { fill: #4493f8 }
    .gap { fill: #f85149; fill-opacity: .14 } .bad { fill: #f85149 } .cross { stroke: #f85149 }
  }
</style>`)
	line(`<rect class="page" width="%d" height="%d" rx="8"/>`, width, height)
	line(`<text class="ink" x="24" y="34" font-size="18" font-weight="600">The leader is killed; %.1f ms later the next one leads</text>`, float64(r.steps[led].at.Microseconds())/1000)
	line(`<text class="dim" x="24" y="56">One run in the simulator, where only the network takes time (0.05 to 0.25 ms each way). Rows are in order, not to scale.</text>`)
	line(`<rect class="gap" x="24" y="%d" width="%d" height="%d"/>`, y(killed), width-48, y(led)-y(killed))
	for i, lane := range r.lanes {
		who, what, _ := strings.Cut(lane, ": ")
		line(`<text class="ink" x="%d" y="88" text-anchor="middle" font-weight="600">%s</text>`, x[who], html.EscapeString(who))
		line(`<text class="dim" x="%d" y="106" text-anchor="middle" font-size="12">%s</text>`, x[who], html.EscapeString(what))
		end := y(len(r.steps))
		if name(i) == old {
			end = y(killed)
			line(`<line class="leads" x1="%d" x2="%[1]d" y1="%d" y2="%d" stroke-width="6"/>`, x[who], 118, end)
		}
		line(`<line class="lane" x1="%d" x2="%[1]d" y1="118" y2="%d" stroke-width="2"/>`, x[who], end)
	}
	line(`<line class="leads" x1="%d" x2="%[1]d" y1="%d" y2="%d" stroke-width="6"/>`, x[next], y(led), y(len(r.steps)))
	line(`<text class="bad" x="32" y="%d" font-size="12">no leader</text>`, y(killed)+22)
	for i, s := range r.steps {
		ms := float64(s.at.Microseconds()) / 1000
		at := fmt.Sprintf("%+.2f ms", ms)
		if ms <= -10 {
			at = fmt.Sprintf("%+.0f ms", ms)
		}
		line(`<text class="dim" x="92" y="%d" text-anchor="end" font-size="12">%s</text>`, y(i)+4, strings.Replace(at, "-", "\u2212", 1))
		from, to := x[s.from], x[s.to]
		if s.from != s.to {
			tip, side := to-4, to-13
			if to < from {
				tip, side = to+4, to+13
			}
			line(`<line class="arrow" x1="%d" x2="%d" y1="%d" y2="%[3]d"/>`, from, side, y(i))
			line(`<path class="head" d="M%d %d L%d %d L%[3]d %[5]d Z"/>`, tip, y(i), side, y(i)-5, y(i)+5)
			line(`<text class="ink halo" x="%d" y="%d" text-anchor="middle" font-size="12">%s</text>`, (from+to)/2, y(i)-7, html.EscapeString(s.text))
			continue
		}
		if i == killed {
			line(`<path class="cross" d="M%d %d l16 16 m0 -16 l-16 16"/>`, from-8, y(i)-8)
			line(`<text class="bad halo" x="%d" y="%d" text-anchor="end" font-weight="600">%s</text>`, from-16, y(i)+4, html.EscapeString(s.text))
			continue
		}
		line(`<circle class="head" cx="%d" cy="%d" r="5"/>`, from, y(i))
		line(`<text class="ink halo" x="%d" y="%d" font-size="12">%s</text>`, from+12, y(i)+4, html.EscapeString(s.text))
	}
	line(`</svg>`)
	return b.String()
}
