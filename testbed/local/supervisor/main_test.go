package supervisor_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the programs that it supervises and a supervisor that
// is killed: it is started through symbolic links with their names.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "meta", "session", "data", "devdb":
		os.Exit(fakeNode())
	case "orphaner":
		os.Exit(orphaner())
	}
	goleak.VerifyTestMain(m)
}

// fakeNode answers the supervisor's requests and stops at SIGTERM. The
// environment variables FAKE_FAILS and FAKE_STUBBORN name a node that fails at
// start and one that does not stop.
func fakeNode() int {
	flags := flag.NewFlagSet("fake", flag.ContinueOnError)
	name := flags.String("name", "db", "")
	listen := flags.String("listen", "", "")
	file := flags.String("file", "", "")
	for _, ignored := range []string{"meta", "dsn-file", "token-file", "lease", "node-lease", "slots", "replicas", "takeover", "profile", "password-file"} {
		flags.String(ignored, "", "")
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 2
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	if os.Getenv("FAKE_FAILS") == *name {
		fmt.Fprintln(os.Stderr, "failed: requested by the test")
		return 3
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening as", *name, "pid", os.Getpid(), "processors", runtime.GOMAXPROCS(0))
	if *file != "" { // it is the database: a MySQL server sends first
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("\x4a\x00\x00\x00\x0a8.0.0"))
				conn.Close()
			}
		}()
	} else {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"name": *name, "incarnation": fmt.Sprint("life-", os.Getpid())})
		})
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string][]string{"reasons": {}})
		})
		mux.HandleFunc("POST /v1/stopping", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(*name, "meta") { // no leader, so that each node is asked directly
				w.WriteHeader(http.StatusServiceUnavailable)
				fmt.Fprintln(w, `{"error": {"code": "no_leader", "message": "no meta leader"}}`)
				return
			}
			var body struct{ Incarnation string }
			if err := json.NewDecoder(r.Body).Decode(&body); err == nil && body.Incarnation == fmt.Sprint("life-", os.Getpid()) {
				fmt.Println("received: the cluster is stopping")
			}
		})
		go func() { _ = http.Serve(ln, mux) }()
	}
	<-term
	fmt.Println("stopped at", time.Now().UnixNano())
	if os.Getenv("FAKE_STUBBORN") == *name {
		<-make(chan int)
	}
	return 0
}

// orphaner runs a supervisor in its own process.
func orphaner() int {
	c, err := newCluster(os.Getenv("ORPHANER_DIR"), os.Getenv("ORPHANER_BIN"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = c.Run(context.Background())
	return 0
}
