package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// patches has, by file below GOROOT/src, pairs of a text and its replacement.
var patches = map[string][]string{
	"runtime/synctest.go": {
		"\tactive  int // other sources of activity\n}\n",
		`	active  int // other sources of activity

	stream uint64 // of what the program draws
	order  uint64 // of what the runtime draws: ready cases, and timers of one instant
	maps   uint64 // what orders the maps
}

// SetBubbleSeed decides what is random in the bubble of the caller.
func SetBubbleSeed(seed uint64) {
	b := getg().bubble
	b.stream = seed
	b.order = bubbleDraw(&b.stream)
	b.maps = bubbleDraw(&b.stream)
}

// bubbleOrder draws for the runtime; at random outside of a bubble.
func bubbleOrder() uint32 {
	if b := getg().bubble; b != nil {
		return uint32(bubbleDraw(&b.order) >> 32)
	}
	return cheaprand()
}

//go:nosplit
func bubbleDraw(stream *uint64) uint64 {
	*stream += 0x9e3779b97f4a7c15
	z := *stream
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}
`,
	},
	// A request's goroutine needs more than the smallest stack. Growing each
	// stack once or twice took a tenth of the simulator's time.
	"runtime/stack.go": {
		"var startingStackSize uint32 = fixedStack", "var startingStackSize uint32 = 16 << 10",
		"\tif debug.adaptivestackstart == 0 {\n", "\tif true {\n", // otherwise the collector sets it back
	},
	"runtime/select.go": {
		"j := cheaprandn(uint32(norder + 1))", "j := bubbleOrder() % uint32(norder+1)",
	},
	"runtime/time.go": {
		"t.rand = cheaprand()", "t.rand = bubbleOrder()",
	},
	"runtime/proc.go": {
		"\tif gp == nil || gp == mp.g0 {\n\t\treturn false\n\t}\n\tif readgstatus(gp)&^_Gscan == _Gsyscall {\n\t\t// Don't bother",
		"\tif gp == nil || gp == mp.g0 || gp.bubble != nil {\n\t\treturn false\n\t}\n\tif readgstatus(gp)&^_Gscan == _Gsyscall {\n\t\t// Don't bother",
		// A goroutine outside, which a timer of the machine's clock has woken, does not take
		// the turn of the one that would be next.
		"runqput(mp.p.ptr(), gp, next)", "runqput(mp.p.ptr(), gp, next && gp.bubble != nil)",
		"runqput(pp, newg, true)", "runqput(pp, newg, newg.bubble != nil)",
	},
	"runtime/rand.go": {
		"func rand32() uint32 {\n", "func rand32() uint32 {\n\tif b := getg().bubble; b != nil {\n\t\treturn uint32(b.maps)\n\t}\n",
		"func rand() uint64 {\n", "func rand() uint64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn bubbleDraw(&b.stream)\n\t}\n",
		"func maps_rand() uint64 {\n", "func maps_rand() uint64 {\n\tif b := getg().bubble; b != nil {\n\t\treturn b.maps\n\t}\n",
		// Hashes, and with them the order of maps, are the same in every process.
		"\tseed := &globalRand.seed\n\tif len(startupRand)", "\tseed := &globalRand.seed\n\tif seed[0] = 1; seed[0] == 1 {\n\t} else if len(startupRand)",
	},
	// A lock is handed to who has waited for it for a millisecond, by the machine's clock.
	"internal/sync/mutex.go": {
		"starving = starving || runtime_nanotime()-waitStartTime > starvationThresholdNs", "starving = starving && waitStartTime == 0",
	},
	// The MySQL driver sends it when it logs in, and its digits are bytes of a recording.
	"os/exec.go": {
		"func Getpid() int { return syscall.Getpid() }", "func Getpid() int { return 1000 }",
	},
	// Connections are closed in the order of their network addresses. The map is
	// keyed by pointers, on which its order depends when it has more than eight
	// entries.
	"net/http/server.go": {
		"\tfor c := range s.activeConn {\n\t\tc.rwc.Close()\n", "\tfor _, c := range connsInOrder(s.activeConn) {\n\t\tc.rwc.Close()\n",
		"\tquiescent := true\n\tfor c := range s.activeConn {\n", "\tquiescent := true\n\tfor _, c := range connsInOrder(s.activeConn) {\n",
		"// closeIdleConns closes all idle connections and reports whether the\n", `func connsInOrder(active map[*conn]struct{}) []*conn {
	var inOrder []*conn
	for c := range active {
		i := len(inOrder)
		inOrder = append(inOrder, c)
		for ; i > 0 && inOrder[i-1].rwc.RemoteAddr().String() > c.rwc.RemoteAddr().String(); i-- {
			inOrder[i] = inOrder[i-1]
		}
		inOrder[i] = c
	}
	return inOrder
}

// closeIdleConns closes all idle connections and reports whether the
`,
	},
	"net/http/h2_bundle.go": {
		"\tfor sc := range s.activeConns {\n\t\tsc.startGracefulShutdown()\n\t}\n", `	var inOrder []*http2serverConn
	for sc := range s.activeConns {
		i := len(inOrder)
		inOrder = append(inOrder, sc)
		for ; i > 0 && inOrder[i-1].remoteAddrStr > sc.remoteAddrStr; i-- {
			inOrder[i] = inOrder[i-1]
		}
		inOrder[i] = sc
	}
	for _, sc := range inOrder {
		sc.startGracefulShutdown()
	}
`,
	},
	// Children are cancelled in the order in which they were made, instead of the
	// order of a map keyed by pointers.
	"context/context.go": {
		"children map[canceler]struct{} // set to nil by the first cancel call", "children map[canceler]uint64 // set to nil by the first cancel call\n\tborn     uint64",
		"p.children = make(map[canceler]struct{})", "p.children = make(map[canceler]uint64)",
		"p.children[child] = struct{}{}", "p.born++\n\t\t\tp.children[child] = p.born",
		"\tfor child := range c.children {\n", `	var inOrder []canceler
	for child, born := range c.children {
		i := len(inOrder)
		inOrder = append(inOrder, child)
		for ; i > 0 && c.children[inOrder[i-1]] > born; i-- {
			inOrder[i] = inOrder[i-1]
		}
		inOrder[i] = child
	}
	for _, child := range inOrder {
`,
	},
}

func main() {
	out := flag.String("out", "", "write the overlay to this folder")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "onetrace:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	if out == "" {
		return fmt.Errorf("-out is required")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	replace := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(patches)) {
		from := filepath.Join(strings.TrimSpace(string(root)), "src", filepath.FromSlash(file))
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		patched := string(text)
		for i := 0; i < len(patches[file]); i += 2 {
			old, replacement := patches[file][i], patches[file][i+1]
			if n := strings.Count(patched, old); n != 1 {
				return fmt.Errorf("%s contains %q %d times, want once: the overlay does not fit this version of Go", from, old, n)
			}
			patched = strings.Replace(patched, old, replacement, 1)
		}
		to := filepath.Join(out, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, []byte(patched), 0o644); err != nil {
			return err
		}
		replace[from] = to
	}
	raw, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "overlay.json"), raw, 0o644)
}
