package main

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"conclave/testbed/local/supervisor"
	"conclave/testbed/outside"
)

// observe has what runs beside a cluster: Prometheus' configuration and the dashboard.
const observe = "../../compose/observe/"

var update = flag.Bool("update", false, "write docs/metrics.md")

// pageHead is what docs/metrics.md has besides its tables.
const pageHead = `# Metrics

Each process answers ` + "`/metrics`" + ` on its port, for Prometheus and without a token. The tables below are made from what running
processes export, by ` + "`go test ./cmd/conclave -run TestMetrics -update`" + `; the words for when to worry stand in
` + "`cmd/conclave/metrics_test.go: worry`" + `. Every process counts from its start. The names of alerts are those of
` + "`compose/observe/alerts.yml`" + `.

## Watch a cluster

The containers: ` + "`docker compose --profile observe up -d`" + ` also starts Prometheus and Grafana, whose dashboard is at
http://127.0.0.1:3000 ([compose.md](compose.md#profiles)). A local cluster, with Debian's packages ` + "`prometheus` and `jq`" + `:

` + "```sh" + `
cp -r compose/observe /tmp/observe
bin/conclave ps --json | jq '[.[] | select(.http != "") | {targets: [.http], labels: {job: .role, instance: .name}}]' > /tmp/observe/targets.yml
prometheus --config.file /tmp/observe/prometheus.yml --storage.tsdb.path /tmp/observe/data
` + "```" + `

Elsewhere, ` + "`prometheus.yml`" + ` and ` + "`alerts.yml`" + ` stay as they are, and ` + "`targets.yml`" + ` lists your processes; with TLS, see the comment in
the first. ` + "`make test-telemetry`" + ` plays all of it with a real Prometheus.
`

// worry is when to look at a metric. Each has an entry; "-" is a figure to compare
// others with.
var worry = map[string]string{
	"conclave_panics_total":                        "above 0",
	"conclave_fence_refused_total":                 "rises for longer than a failover: a deposed leader goes on",
	"conclave_view_refused_total":                  "rises for longer than a failover: a node sends states of a former leader",
	"conclave_connections_refused_total":           "rises: too few sessions, or one address takes too much",
	"conclave_requests_refused_total":              "rises: as above",
	"conclave_tls_expires_seconds":                 "less than a week ahead",
	"conclave_tls_refused_total":                   "rises: the new files are wrong, the old certificate stays in use",
	"conclave_meta_leading":                        "the sum is not 1 for longer than a failover",
	"conclave_meta_term":                           "rises although nothing was stopped",
	"conclave_meta_lease_remaining_seconds":        "often below half of the lease: renewals are late",
	"conclave_meta_protected":                      "1: lost data nodes must be started, or given up with `conclave protection end`",
	"conclave_meta_members":                        "fewer than you run",
	"conclave_meta_table_spread_seconds":           "more than a second: a node is slow or cannot be reached",
	"conclave_meta_elections_won_total":            "as the term",
	"conclave_meta_rounds_total":                   "stands still: the election waits for the database",
	"conclave_sql_statements_total":                "a multiple of the usual rate",
	"conclave_sql_round_trip_seconds":              "above a twelfth of the lease",
	"conclave_sql_blocked":                         "1: [databases.md](databases.md#a-slow-or-busy-database) has the remedy",
	"conclave_data_writes_total":                   "-",
	"conclave_data_diffs_total":                    "rises fast while no slot moves and no session restarts",
	"conclave_data_copies_differing_total":         "above 0",
	"conclave_data_slot_unreadable_seconds":        "above a second without a lost node",
	"conclave_data_slots":                          "`serving` of all nodes is not the number of slots; `migrating` for seconds",
	"conclave_data_slots_partial":                  "above 0 for minutes: start or remove the session",
	"conclave_data_publishers":                     "the sum differs from that of the sessions for seconds",
	"conclave_session_refused_total":               "rises: a client is above its limits, or sends what is invalid",
	"conclave_session_client_leases_expired_total": "many at once: clients crashed, or the network to them did",
	"conclave_session_waits_total":                 "rises for minutes: data nodes are too slow for the load",
	"conclave_session_unread_total":                "rises: a client is too slow for its subscriptions",
	"conclave_session_unsent_bytes":                "megabytes for seconds; at 8 MiB new registrations wait",
	"conclave_session_clients":                     "falls at once",
	"conclave_session_publishers":                  "falls at once",
	"conclave_session_subscribers":                 "-",
	"conclave_session_pushes_held":                 "above 0 for longer than the session grace",
	"conclave_session_lists_too_large":             "above 0: split the service, or raise `--max-list-bytes` everywhere",
	"conclave_session_pushes_total":                "a multiple of the usual rate: a publisher flaps",
	"conclave_session_pushes_held_total":           "rises although no session was lost",
}

// family is one metric as running processes export it.
type family struct {
	kind, help string
	labels     map[string][]string // the values of each label
	roles      []string            // of the processes that have it
}

var (
	metricLine = regexp.MustCompile(`^# (HELP|TYPE) (\S+) (.*)$`)
	sample     = regexp.MustCompile(`^(conclave_\w+)\{(.*)\} `)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
	metricName = regexp.MustCompile(`conclave_\w+`)
	ofBuckets  = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// families returns the metrics of the processes.
func families(t *testing.T, web *http.Client, ps []supervisor.Process) map[string]*family {
	all := map[string]*family{}
	for _, p := range ps {
		if p.HTTP == "" {
			continue
		}
		require.NoError(t, outside.Get(t.Context(), web, "https://"+p.HTTP+"/metrics", "", func(res *http.Response) error {
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				if m := metricLine.FindStringSubmatch(lines.Text()); m != nil {
					f := all[m[2]]
					if f == nil {
						f = &family{labels: map[string][]string{}}
						all[m[2]] = f
					}
					if m[1] == "TYPE" {
						f.kind = m[3]
						continue
					}
					assert.True(t, f.help == "" || f.help == m[3], "%s has two meanings", m[2])
					f.help = m[3]
					f.roles = append(f.roles, string(p.Role))
				} else if m := sample.FindStringSubmatch(lines.Text()); m != nil && all[m[1]] != nil {
					for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
						all[m[1]].labels[pair[1]] = append(all[m[1]].labels[pair[1]], pair[2])
					}
				}
			}
			return lines.Err()
		}))
	}
	return all
}

// alert is one rule of alerts.yml.
type alert struct {
	Alert string
	Expr  string
}

// readAlerts returns the rules of alerts.yml in their order.
func readAlerts(t *testing.T) (alerts []alert) {
	var file struct{ Groups []struct{ Rules []alert } }
	text, err := os.ReadFile(observe + "alerts.yml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		alerts = append(alerts, g.Rules...)
	}
	require.NotEmpty(t, alerts)
	return alerts
}

// panelQuery is one query of a panel of the dashboard.
type panelQuery struct{ panel, expr string }

// readDashboard returns the queries of the dashboard.
func readDashboard(t *testing.T) (queries []panelQuery) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(observe + "grafana/conclave.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries = append(queries, panelQuery{p.Title, target.Expr})
		}
	}
	require.NotEmpty(t, queries)
	return queries
}

// metricsPage returns docs/metrics.md.
func metricsPage(all map[string]*family, alerts []alert) string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, section := range []struct{ title, role string }{{"Every process", ""}, {"Metas", "meta"}, {"Data nodes", "data"}, {"Sessions", "session"}} {
		fmt.Fprintf(&b, "\n## %s\n\n| name | type | labels | meaning | when to worry |\n| --- | --- | --- | --- | --- |\n", section.title)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f := all[name]
			role := ""
			if len(f.roles) == 1 {
				role = f.roles[0]
			}
			if role != section.role {
				continue
			}
			var labels, firing []string
			for _, key := range slices.Sorted(maps.Keys(f.labels)) {
				slices.Sort(f.labels[key])
				labels = append(labels, key+": "+strings.Join(slices.Compact(f.labels[key]), ", "))
			}
			for _, a := range alerts {
				if slices.Contains(metricName.FindAllString(a.Expr, -1), name) {
					firing = append(firing, "`"+a.Alert+"`")
				}
			}
			when := worry[name]
			if firing != nil {
				when += " (" + strings.Join(firing, ", ") + ")"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, f.kind, cmp.Or(strings.Join(labels, "; "), "-"), f.help, when)
		}
	}
	return b.String()
}

// docs/metrics.md lists what processes export, and the dashboard and the rules name
// nothing else. Each rule is seen firing by the unit tests of the rules.
func TestMetrics_PageIsThatOfTheCode(t *testing.T) {
	if testing.Short() {
		t.Skip("short: without real processes")
	}
	realPrograms(t)
	dir := filepath.Join(t.TempDir(), "c")
	conclave := func(args ...string) result { return tool(t, append([]string{"--dir", dir, "--json"}, args...)...) }
	defer conclave("down", "--now")
	ps := decode[[]supervisor.Process](t, conclave("up", "--detach", "--tls", "--meta-nodes", "1", "--data-nodes", "1", "--session-nodes", "1", "--slots", "16"))
	ca, err := os.ReadFile(filepath.Join(dir, "tls", "ca.pem"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	all := families(t, outside.HTTP(nil, func() *tls.Config { return &tls.Config{RootCAs: roots} }), ps)

	for name, f := range all {
		assert.NotEmpty(t, worry[name], "%s needs a word in worry", name)
		assert.Contains(t, []int{1, 3}, len(f.roles), "%s is exported by one role or by all", name)
	}
	for name := range worry {
		assert.NotNil(t, all[name], "no process exports %s, which worry has", name)
	}
	alerts, queries := readAlerts(t), readDashboard(t)
	tests, err := os.ReadFile(observe + "alerts_test.yml")
	require.NoError(t, err)
	for _, a := range alerts {
		fires := regexp.MustCompile(`alertname: ` + a.Alert + `\n +eval_time: \w+\n +exp_alerts: `)
		assert.True(t, fires.Match(tests), "no test sees %s firing", a.Alert)
		queries = append(queries, panelQuery{a.Alert, a.Expr})
	}
	shown := map[string]bool{}
	for _, q := range queries {
		for _, name := range metricName.FindAllString(q.expr, -1) {
			name = ofBuckets.ReplaceAllString(name, "")
			shown[name] = true
			assert.NotNil(t, all[name], "%s: no process exports %s", q.panel, name)
		}
	}
	for name := range all {
		if name != "conclave_meta_elections_won_total" && name != "conclave_meta_rounds_total" && name != "conclave_data_diffs_total" {
			assert.True(t, shown[name], "%s is on no panel and in no rule", name)
		}
	}

	want := metricsPage(all, alerts)
	if *update {
		require.NoError(t, os.WriteFile("../../docs/metrics.md", []byte(want), 0o644))
	}
	got, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	assert.Equal(t, want, string(got), "go test ./cmd/conclave -run TestMetrics -update")
}
