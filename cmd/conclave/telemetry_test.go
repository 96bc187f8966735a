package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/long"
	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
)

// prometheusTools skips the test if Prometheus is not installed.
func prometheusTools(t *testing.T) {
	t.Helper()
	if !long.All() {
		t.Skip("make test-telemetry runs this one")
	}
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("REQUIRE_PROMETHEUS") != "" {
				t.Fatal("no Prometheus: install Debian's package prometheus")
			}
			t.Skip("NO PROMETHEUS: the dashboard, the rules and the scrape configuration were not tested; install Debian's package prometheus")
		}
	}
}

// prometheus is a running one.
type prometheus struct {
	t       *testing.T
	address string
	web     *http.Client
}

// startPrometheus runs Prometheus on the files in dir until the test ends.
func startPrometheus(t *testing.T, dir string) *prometheus {
	cmd := exec.Command("prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var reading sync.WaitGroup
	address, ready := make(chan string, 1), make(chan bool, 1)
	reading.Go(func() {
		defer close(ready)
		defer close(address)
		listening := regexp.MustCompile(`msg="Listening on".* address=(\S+)`)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			} else if strings.Contains(lines.Text(), "Server is ready") {
				ready <- true
			} else if strings.Contains(lines.Text(), "level=error") {
				t.Error(lines.Text())
			}
		}
	})
	t.Cleanup(func() {
		assert.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		reading.Wait()
		assert.NoError(t, cmd.Wait())
	})
	p := &prometheus{t: t, address: <-address, web: outside.HTTP(nil, nil)}
	require.True(t, <-ready, "Prometheus has ended")
	return p
}

// series is one of a query's result.
type series struct {
	Metric map[string]string
	Value  [2]any   // of a query: its time and value
	Values [][2]any // of a query of a range
}

// number returns a value of a series.
func number(t *testing.T, v [2]any) float64 {
	n, err := strconv.ParseFloat(v[1].(string), 64)
	require.NoError(t, err)
	return n
}

// get calls Prometheus and requires that it succeeds.
func (p *prometheus) get(call string, args url.Values, data any) {
	p.t.Helper()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	require.NoError(p.t, outside.Get(p.t.Context(), p.web, "http://"+p.address+"/api/v1/"+call+"?"+args.Encode(), "", func(res *http.Response) error {
		return json.NewDecoder(res.Body).Decode(&answer)
	}))
	require.Equal(p.t, "success", answer.Status, "%v: %s", args, answer.Error)
	require.NoError(p.t, json.Unmarshal(answer.Data, data))
}

func (p *prometheus) query(expr string) []series {
	p.t.Helper()
	var data struct{ Result []series }
	p.get("query", url.Values{"query": {expr}}, &data)
	return data.Result
}

// history returns what a panel shows of the last minutes.
func (p *prometheus) history(expr string) []series {
	p.t.Helper()
	now := time.Now()
	var data struct{ Result []series }
	p.get("query_range", url.Values{
		"query": {expr}, "step": {"5"}, "start": {fmt.Sprint(now.Add(-2 * time.Minute).Unix())}, "end": {fmt.Sprint(now.Unix())},
	}, &data)
	return data.Result
}

// until waits until the result of a query is as requested.
func (p *prometheus) until(expr string, is func([]series) bool) (found []series) {
	p.t.Helper()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if found = p.query(expr); is(found) {
			return found
		}
		require.True(p.t, time.Now().Before(limit), "%s is still %v", expr, found)
	}
}

// observed copies the shipped files and lists the processes as targets, as
// docs/metrics.md describes it.
func observed(t *testing.T, ps []supervisor.Process) (dir string) {
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	var targets []target
	for _, p := range ps {
		if p.HTTP != "" {
			targets = append(targets, target{[]string{p.HTTP}, map[string]string{"job": string(p.Role), "instance": p.Name}})
		}
	}
	dir = filepath.Join(t.TempDir(), "observe")
	require.NoError(t, os.CopyFS(dir, os.DirFS(observe)))
	list, err := json.Marshal(targets)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "targets.yml"), list, 0o644))
	return dir
}

// Promtool accepts the shipped files, and the rules pass their unit tests.
func TestTelemetry_PromtoolAcceptsTheFiles(t *testing.T) {
	prometheusTools(t)
	for _, args := range [][]string{{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.Command("promtool", args...)
		cmd.Dir = observe
		out, err := cmd.CombinedOutput()
		assert.NoError(t, err, "promtool %v:\n%s", args, out)
	}
}

// A real Prometheus with the shipped files watches a cluster whose leader is killed:
// every panel has a figure, no alert fires before, and the panels show the next term,
// the next leader, and the lost process.
func TestTelemetry_PanelsShowAFailover(t *testing.T) {
	prometheusTools(t)
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	conclave := func(args ...string) result { return tool(t, append([]string{"--dir", dir, "--json"}, args...)...) }
	defer conclave("down", "--now")
	ps := decode[[]supervisor.Process](t, conclave("up", "--detach", "--clients", "1"))
	nodes := slices.DeleteFunc(ps, func(p supervisor.Process) bool { return p.HTTP == "" })
	allReady(t, conclave)
	p := startPrometheus(t, observed(t, nodes))
	p.until("up == 1", func(s []series) bool { return len(s) == len(nodes) })

	rules := readAlerts(t)
	names := map[string]string{} // of the metrics, with the rule or panel that names one
	queries := readDashboard(t)
	panels := map[string]string{}
	for _, q := range queries {
		panels[q.panel] = q.expr
		p.until(q.expr, func(s []series) bool { return len(s) > 0 && len(p.history(q.expr)) > 0 }) // a rate needs two scrapes
	}
	for _, a := range rules {
		p.query(a.Expr)
		queries = append(queries, panelQuery{a.Alert, a.Expr})
	}
	for _, q := range queries {
		for _, name := range metricName.FindAllString(q.expr, -1) {
			names[name] = q.panel
		}
	}
	for name, by := range names {
		if !strings.HasPrefix(name, "conclave_tls_") { // see the test below
			assert.NotEmpty(t, p.query(name), "%s names %s", by, name)
		}
	}
	p.until(`sum(conclave_data_slots{state="serving"})`, func(s []series) bool { return number(t, s[0].Value) == 256 })
	p.until("sum(rate(conclave_session_pushes_total[1m]))", func(s []series) bool { return len(s) == 1 })
	assert.Empty(t, p.query(`ALERTS{alertstate="firing"}`), "a calm cluster")

	leads := func(s []series) (leader string) {
		for _, one := range s {
			if number(t, one.Value) == 1 {
				leader = one.Metric["instance"]
			}
		}
		return leader
	}
	term := number(t, p.query(panels["Term"])[0].Value)
	first := leads(p.query(panels["Leader"]))
	killed := decode[supervisor.Process](t, conclave("kill", "leader"))
	assert.Equal(t, first, killed.Name)
	p.until(panels["Term"], func([]series) bool { // the panel shows both terms
		shown := p.history(panels["Term"])[0].Values
		return number(t, shown[0]) == term && number(t, shown[len(shown)-1]) > term
	})
	p.until(panels["Leader"], func(s []series) bool { leader := leads(s); return leader != "" && leader != first })
	p.until(panels["Elections in ten minutes"], func(s []series) bool { return number(t, s[0].Value) > 0 })
	down := p.until(`ALERTS{alertstate="firing"}`, func(s []series) bool { return len(s) > 0 })
	assert.Len(t, down, 1, "%v", down)
	assert.Equal(t, "ConclaveNodeDown", down[0].Metric["alertname"])
	assert.Equal(t, first, down[0].Metric["instance"])
}

// With the two lines that the comment in prometheus.yml has, Prometheus scrapes a cluster
// with TLS.
func TestTelemetry_ScrapesWithTLS(t *testing.T) {
	prometheusTools(t)
	realPrograms(t)
	cluster := filepath.Join(t.TempDir(), "c")
	conclave := func(args ...string) result { return tool(t, append([]string{"--dir", cluster, "--json"}, args...)...) }
	defer conclave("down", "--now")
	dir := observed(t, decode[[]supervisor.Process](t, conclave("up", "--detach", "--tls", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16")))
	config, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	require.NoError(t, err)
	secure := strings.NewReplacer("# scheme:", "scheme:", "# tls_config:", "tls_config:", "/run/secrets/tls/", filepath.Join(cluster, "tls")+"/").Replace(string(config))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(secure), 0o644))
	p := startPrometheus(t, dir)
	p.until("conclave_tls_expires_seconds > time()", func(s []series) bool { return len(s) == 3 })
	p.until("conclave_tls_refused_total == 0", func(s []series) bool { return len(s) == 3 })
}
