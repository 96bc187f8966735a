package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/client"
	"conclave/internal/inprocess"
	"conclave/internal/long"
	"conclave/session"
)

// lists are those that a program has printed.
type lists struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *lists) add(list string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, list)
}

// since returns what was added after the first n, or, with -1, the last.
func (l *lists) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 {
		n = len(l.all) - 1
	}
	return slices.Clone(l.all[n:])
}

// Programs that were written for Consul register and watch, on a real network: its client
// for Go, what Prometheus, a resolver of gRPC and Go kit do with that, py-consul, the
// package consul of npm, and Spring Cloud Consul. A data node dies, then the leader of the
// metas, then the session at which they have registered; no watcher ever misses one of them.
func TestConsul_ProgramsOfOthers(t *testing.T) {
	if !long.All() {
		t.Log("only with TEST_ALL=1: real programs, some of which are fetched")
		return
	}
	nodes, err := inprocess.New(inprocess.Config{Metas: 3, Datas: 3, Sessions: 1})
	require.NoError(t, err)
	defer nodes.Close()
	for _, name := range nodes.Names() {
		if name != "session-1" { // it has no address for clients of Consul
			_, err := nodes.Start(name, nil)
			require.NoError(t, err)
		}
	}
	require.NoError(t, nodes.AwaitReady(t.Context()))
	consul, sessions, sdk := []string{freeAddress(t), freeAddress(t)}, []*inprocess.Process{}, []string{}
	for i, address := range consul {
		c := session.DefaultConfig()
		c.Node = conclave.NodeID{Name: fmt.Sprintf("consul-%d", i+1), Incarnation: "1"}
		c.Listen, c.Metas, c.ConsulListen = "127.0.0.1:0", nodes.Addresses(conclave.RoleMeta), address
		s, err := session.New(c)
		require.NoError(t, err)
		p := inprocess.Start(s, nil)
		defer p.Kill()
		<-s.Started()
		sessions, sdk = append(sessions, p), append(sdk, s.Address())
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	seen, want := map[string]*lists{}, []string{}
	start := func(name string, cmd *exec.Cmd) {
		l := &lists{}
		cmd.Env, cmd.Stderr = append(cmd.Environ(), "CONSUL="+strings.Join(consul, ",")), os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		seen[name] = l
		running.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				l.add(lines.Text())
			}
			err := cmd.Wait()
			assert.Error(t, ctx.Err(), "%s has ended: %v", name, err)
		})
	}
	dir := t.TempDir()
	build := exec.CommandContext(ctx, "go", "test", "-mod=readonly", "-c", "-o", dir+"/consultest", ".")
	build.Dir = "consul/consultest"
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	start("consul/api", exec.CommandContext(ctx, dir+"/consultest", "-test.timeout=0"))
	want = append(want, "10.0.0.1:1")
	if python := pyConsul(t, dir); python != "" {
		start("py-consul", exec.CommandContext(ctx, python, "consul/consultest/watch.py"))
		want = append(want, "10.0.0.2:2")
	}
	if modules := nodeConsul(t, dir); modules != "" {
		cmd := exec.CommandContext(ctx, "node", "consul/consultest/watch.js")
		cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
		start("the package consul of npm", cmd)
		want = append(want, "10.0.0.4:4")
	}
	want = append(want, "10.0.0.3:3") // of Go kit
	if jars := spring(t, dir); jars != "" {
		cmd := exec.CommandContext(ctx, "java", "-cp", jars, "consul/consultest/Watch.java")
		cmd.Env = append(os.Environ(), "BEHIND="+oneName(ctx, t, consul, &running))
		start("Spring Cloud Consul", cmd)
		want = append(want, "10.0.0.6:6")
	}
	slices.Sort(want)
	for _, program := range []string{"prometheus", "grpc", "kit"} {
		cmd := exec.CommandContext(ctx, dir+"/consultest", "-test.timeout=0")
		cmd.Env = append(os.Environ(), "PROGRAM="+program)
		start(program, cmd)
	}
	targets := prometheus(ctx, t, dir, consul[1], &running)

	full := strings.Join(want, " ")
	at := map[string]int{}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for name, l := range seen {
			at[name] = slices.Index(l.since(0), full)
			assert.GreaterOrEqual(c, at[name], 0, "%s has seen %q", name, l.since(0))
		}
		if targets != nil {
			assert.Equal(c, want, targets())
		}
	}, time.Minute, 100*time.Millisecond)
	all := func(span time.Duration) {
		for until := time.Now().Add(span); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
			if targets != nil {
				require.Equal(t, want, targets())
			}
		}
		for name, l := range seen {
			for _, list := range l.since(at[name]) {
				require.Equal(t, full, list, name)
			}
		}
	}
	all(5 * time.Second)
	require.NoError(t, killed(nodes.Process("data-1")))
	all(10 * time.Second)
	leader, term := nodes.Leader()
	require.NoError(t, killed(nodes.Process(leader)))
	for _, path := range []string{registerAgent, "/v1/agent/check/pass/service:late"} { // without a leader
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+consul[0]+path, strings.NewReader(`{"Name": "late", "Port": 80, "Check": {"TTL": "1m"}}`))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	all(15 * time.Second)
	_, next := nodes.Leader()
	require.Greater(t, next, term)
	require.NoError(t, killed(sessions[0]))
	all(25 * time.Second) // the grace of what it leaves is 15 s
	x, err := client.New(client.Config{Sessions: sdk[1:], Name: "sdk"})
	require.NoError(t, err)
	x.Start()
	defer func() { _ = x.Close(ctx) }()
	_, err = x.Publish(ctx, "svc", []string{"10.0.0.5:5"})
	require.NoError(t, err)
	want = append(want, "10.0.0.5:5")
	slices.Sort(want)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for name, l := range seen {
			assert.Equal(c, []string{strings.Join(want, " ")}, l.since(-1), name)
		}
	}, 30*time.Second, 100*time.Millisecond)
}

// killed kills a process, and returns an error if it did not run.
func killed(p *inprocess.Process) error {
	if !p.Running() {
		return fmt.Errorf("it has ended: %w", p.Err())
	}
	p.Kill()
	return nil
}

// oneName returns an address that leads to the first of several at which anything listens,
// until ctx ends.
func oneName(ctx context.Context, t *testing.T, addresses []string, running *sync.WaitGroup) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	running.Go(func() {
		defer context.AfterFunc(ctx, func() { ln.Close() })()
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			for _, address := range addresses {
				if out, err := net.Dial("tcp", address); err == nil {
					end := context.AfterFunc(ctx, func() { in.Close(); out.Close() })
					copied := func(to, from net.Conn) func() {
						return func() {
							_, _ = io.Copy(to, from) // ends with either
							in.Close()
							out.Close()
							end()
						}
					}
					running.Go(copied(in, out))
					running.Go(copied(out, in))
					break
				}
			}
		}
	})
	return ln.Addr().String()
}

// spring returns the class path of Spring Cloud Consul, or "".
func spring(t *testing.T, dir string) string {
	file := filepath.Join(dir, "classpath")
	if out, err := exec.CommandContext(t.Context(), "mvn", "-q", "-B", "-f", "consul/consultest/pom.xml", "dependency:build-classpath", "-Dmdep.outputFile="+file).CombinedOutput(); err != nil {
		t.Logf("SKIPPED: Spring Cloud Consul: %v\n%s", err, out)
		return ""
	}
	jars, err := os.ReadFile(file)
	require.NoError(t, err)
	return strings.TrimSpace(string(jars))
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// pyConsul returns a Python that has py-consul, or "".
func pyConsul(t *testing.T, dir string) string {
	python := filepath.Join(dir, "venv/bin/python")
	for _, command := range [][]string{{"python3", "-m", "venv", dir + "/venv"}, {python, "-m", "pip", "install", "-q", "py-consul==1.8.0"}} {
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Logf("SKIPPED: py-consul: %s: %v\n%s", strings.Join(command, " "), err, out)
			return ""
		}
	}
	return python
}

// nodeConsul returns the modules of Node with its client, or "".
func nodeConsul(t *testing.T, dir string) string {
	if out, err := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--prefix", dir, "consul@2.0.1").CombinedOutput(); err != nil {
		t.Logf("SKIPPED: the package consul of npm: %v\n%s", err, out)
		return ""
	}
	return filepath.Join(dir, "node_modules")
}

// prometheus starts Prometheus, which finds its targets at an address, and returns a
// function that returns them; nil if there is none on this machine that can. What it would
// execute for that is in consultest, too.
func prometheus(ctx context.Context, t *testing.T, dir, consul string, running *sync.WaitGroup) func() []string {
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Log("SKIPPED: prometheus is not installed")
		return nil
	}
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte("scrape_configs: [{job_name: svc, consul_sd_configs: [{server: '"+consul+"', refresh_interval: 1s}]}]\n"), 0o600))
	if out, err := exec.CommandContext(ctx, "promtool", "check", "config", file).CombinedOutput(); err != nil {
		t.Logf("SKIPPED: this Prometheus was built without consul_sd_configs, as Debian's is: %s", out)
		return nil
	}
	listen := freeAddress(t)
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+file, "--storage.tsdb.path="+dir+"/tsdb", "--web.listen-address="+listen)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	require.NoError(t, cmd.Start())
	running.Go(func() { _ = cmd.Wait() })
	return func() (out []string) {
		res, err := http.Get("http://" + listen + "/api/v1/targets?state=active")
		if err != nil {
			return nil // it starts
		}
		defer res.Body.Close()
		var answer struct {
			Data struct {
				ActiveTargets []struct{ DiscoveredLabels map[string]string }
			}
		}
		_ = json.NewDecoder(res.Body).Decode(&answer)
		for _, target := range answer.Data.ActiveTargets {
			if target.DiscoveredLabels["__meta_consul_service"] == "svc" {
				out = append(out, target.DiscoveredLabels["__address__"])
			}
		}
		slices.Sort(out)
		return out
	}
}

// DNS answers over UDP, where a long answer is cut and marked, and over TCP.
func TestConsul_DNSOverUDP(t *testing.T) {
	c := newCluster(t, nil, 4, 1)
	defer c.end()
	c.startData("data-1")
	at := freeAddress(t)
	c.startSession("session-1", func(s *session.Config) { s.DNSListen = at })
	c.settle()
	var values []string
	for i := range 200 {
		values = append(values, fmt.Sprintf("10.0.1.%d:80", i))
	}
	c.published(c.client("sdk"), "svc", values...)
	ask := func(network string, size uint16) *dns.Msg {
		q := new(dns.Msg).SetQuestion("svc.service.consul.", dns.TypeSRV)
		if size > 0 {
			q.SetEdns0(size, false)
		}
		out, _, err := (&dns.Client{Net: network, UDPSize: size}).Exchange(q, at)
		require.NoError(t, err)
		return out
	}
	short, longer, whole := ask("udp", 0), ask("udp", 4096), ask("tcp", 0)
	assert.True(t, short.Truncated)
	assert.True(t, longer.Truncated)
	assert.False(t, whole.Truncated)
	assert.NotEmpty(t, short.Answer)
	assert.Greater(t, len(longer.Answer), len(short.Answer))
	assert.Len(t, whole.Answer, 200)
}
