package archtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rules is the import table, a statement of policy (the form is that of the Go
// standard library's deps_test.go). "a < b" means b may import a, and whatever
// a may import; NONE stands for nothing of this module. A package on the right
// of several lines may import what each of them allows. Only the lab may import
// lab/article000/sofaloop: it is an election with two leaders, and no meta may use it.
const rules = `
	NONE < conclave;
	conclave < slot, lease, blacklist, internal/trace;
	conclave < internal/certs < wire/serve, internal/node, client, testbed/local/supervisor, cmd/conclave, internal/mysqltest;
	NONE < wire/v1 < wire/v1/wirev1connect;
	NONE < wire/rights, wire/admit;
	conclave, wire/v1 < wire/list < client, data/store, session/registry;
	slot, lease, blacklist, internal/trace, wire/rights, wire/admit, wire/v1/wirev1connect < wire;
	NONE < internal/stage, internal/sleep, internal/signal, internal/long, internal/cli/clitest;
	internal/sleep < internal/faultnet, client, internal/node, meta, meta/metaclient, testbed/scenario, testbed/load, testbed/soak, lab, cmd/conclave, lab/article000/sofaloop, lab/article001/rowlock, lab/article003/versioncas, lab/article004/zklatch;
	internal/signal < internal/faultnet, elector, wire, lab, lab/article004/zklatch, lab/article004/zklatch/memtree;
	NONE < internal/join < sql, wire, meta, lab/article004/zklatch;
	NONE < internal/contain < wire/serve, internal/node, meta, session;
	NONE < internal/random < elector, elector/once, client, internal/node;
	NONE < internal/reason < elector, meta;
	NONE < internal/bubble < elector/electortest, elector/electortest/sqlworld;
	conclave < sql;

	NONE < internal/logging;
	conclave < elector;
	elector < elector/electortest, elector/electorhttp;
	elector, sql < elector/termcas, elector/fence;
	elector/fence < elector/electorfake, elector/once;
	elector/termcas, elector/fence < elector/example;
	internal/long < internal/mysqltest, internal/zktest;
	NONE < sql/tests, elector/tests, elector/termcas/tests, elector/fence/tests, elector/once/tests, elector/electorhttp/tests;

	wire < wire/serve < meta/metaclient, internal/cli;
	wire < meta/metaclient, client, testbed/simulated/simnet;
	wire, meta/metaclient < internal/node;
	internal/node, elector, sql, internal/stage, internal/logging, lease < meta;
	wire < data/store;
	data/store < data;
	wire < session/registry;
	session/registry < session;
	wire/list, wire/serve, internal/sleep < session/consul < session;
	wire < session/sofa < session;
	internal/node, internal/stage < data, session;

	conclave < internal/devdb < internal/mysqltest;
	elector/electortest, sql, internal/mysqltest, testbed/simulated/simnet < elector/electortest/sqlworld;
	internal/node < internal/cli;
	meta, elector/termcas, sql, internal/logging < meta/metasql;
	meta/metasql, internal/cli < meta/metacmd;

	internal/trace, slot, client < testbed < testbed/check < testbed/scenario < testbed/report;
	testbed/check < testbed/console/journal;
	testbed, meta/metaclient, session/sofa < testbed/outside;
	meta/metasql, data, session, internal/devdb, internal/sleep, testbed/outside < internal/inprocess;
	conclave, slot, sql, meta/metaclient, testbed/outside < testbed/local/supervisor;
	testbed/outside, internal/faultnet, testbed/local/supervisor < testbed/local;
	testbed/outside < testbed/containers;
	wire, sql, testbed/console/journal < testbed/simulated/wiretap < testbed/simulated;
	internal/inprocess, testbed/scenario, testbed/simulated/simnet, testbed/outside, internal/logging < testbed/simulated;
	NONE < testbed/simulated/onetrace, testbed/simulated/mutate;
	testbed/check, testbed/outside < testbed/load < testbed/bench;
	testbed < testbed/check/blackbox;
	testbed/scenario, testbed/check/blackbox, testbed/outside < testbed/soak;
	NONE < testbed/hostile;
	testbed/scenario < testbed/demo;
	wire/serve, testbed/console/journal < testbed/console;
	data, session, testbed/console, testbed/scenario, testbed/outside, internal/sleep < testbed/console/live;
	testbed/console, testbed/console/journal < testbed/console/recorded < cmd/conclave;
	testbed/console/live, testbed/simulated, internal/signal < testbed/playground;
	testbed/console < testbed/playground/glue;
	testbed/playground, testbed/playground/glue, internal/bubble < testbed/playground/living;
	testbed/playground/glue, testbed/console/recorded < testbed/playground/player;
	testbed/console < testbed/playground/page < cmd/conclave;
	testbed/playground/page, testbed/console/journal < testbed/playground/build;

	meta/metacmd < cmd/meta, cmd/node, cmd/conclave;
	data, internal/cli < data/datacmd < cmd/data, cmd/node, cmd/conclave;
	internal/inprocess < cmd/conclave;
	internal/inprocess, client < client/conclavetest;
	session, internal/cli < session/sessioncmd < cmd/session, cmd/node, cmd/conclave;
	internal/devdb < internal/devdb/devdbcmd < cmd/devdb, cmd/conclave;
	client, meta/metaclient, session/registry, internal/cli, internal/logging, elector/termcas, elector/fence < cmd/conclave;
	testbed/report, testbed/local, testbed/containers, testbed/soak, testbed/bench, testbed/demo, testbed/console/live < cmd/conclave;

	sql < lab/article000/sofaloop;
	sql < lab/article001/rowlock;
	elector, sql < lab/article003/versioncas;
	elector/termcas, lab/article000/sofaloop, lab/article001/rowlock, lab/article003/versioncas, lab/article004/zklatch, lab/article004/zklatch/memtree, internal/faultnet < lab < cmd/conclave;
	lab/article001/rowlock, lab/article004/zklatch, lab/article004/zklatch/memtree < lab/oversell < cmd/conclave;
`

// TestImports holds every package of the module against the table. A package
// that is missing in it may import nothing of the module: add its line with it.
func TestImports(t *testing.T) {
	allowed := parse(t, rules)
	for pkg, imports := range list(t) {
		if strings.HasPrefix(pkg, "internal/archtest") {
			continue
		}
		may, ok := allowed[pkg]
		if !assert.True(t, ok, "package %s has no line in the import table", pkg) {
			continue
		}
		for _, imp := range imports {
			assert.True(t, slices.Contains(may, imp), "%s imports %s, which the import table does not allow", pkg, imp)
		}
	}
}

// TestForeignImports keeps three technologies where they belong.
func TestForeignImports(t *testing.T) {
	of := foreign(t)
	for _, rule := range []struct {
		what string
		may  []string
	}{
		{"github.com/dolthub/go-mysql-server", []string{"internal/devdb"}},
		{"database/sql", []string{"sql", "elector/termcas", "lab/article001/rowlock", "elector/fence", "elector/example", "elector/electorfake", "internal/mysqltest", "cmd/conclave", "lab/oversell"}}, // the tool asks the database how much it was asked; the lab's shop is a product
		{"github.com/spf13/cobra", []string{"internal/cli", "cmd/"}},
		{"github.com/go-zookeeper/zk", []string{"lab/article004/zklatch"}},
		{"testing", []string{"internal/zktest", "elector/electortest", "internal/mysqltest", "testbed/simulated", "testbed/playground", "client/conclavetest"}},
		{"github.com/ory/dockertest", []string{"internal/mysqltest"}},
	} {
		for pkg, imports := range of {
			for _, imp := range imports {
				if imp != rule.what && !strings.HasPrefix(imp, rule.what+"/") {
					continue
				}
				assert.True(t, slices.ContainsFunc(rule.may, func(p string) bool { return pkg == p || strings.HasPrefix(pkg, strings.TrimSuffix(p, "/")+"/") }),
					"%s imports %s: only %v may", pkg, imp, rule.may)
			}
		}
	}
}

// Requests between nodes and of operators carry tokens, so none goes through a proxy of
// the environment, as those of net/http's own client do.
func TestRequests_UseNoProxyOfTheEnvironment(t *testing.T) {
	ofHTTP := regexp.MustCompile(`\bhttp\.(DefaultClient|DefaultTransport|ProxyFromEnvironment|(Get|Head|Post|PostForm)\()`)
	read := 0
	for _, file := range tree(t) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			text, err := os.ReadFile(filepath.Join(root, file))
			require.NoError(t, err)
			read++
			assert.Empty(t, ofHTTP.FindString(string(text)), file)
		}
	}
	assert.Greater(t, read, 300)
}

// TestBubbles_HaveOneProcessorUnderTheRaceDetector checks that whatever uses
// testing/synctest imports internal/bubble, which says why.
func TestBubbles_HaveOneProcessorUnderTheRaceDetector(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "conclave/...").Output()
	require.NoError(t, err)
	bubbles := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if slices.Contains(f, "testing/synctest") {
			bubbles++
			assert.True(t, slices.ContainsFunc(f, func(imp string) bool { return strings.HasSuffix(imp, "/internal/bubble") }), "%s uses testing/synctest and does not import internal/bubble", f[0])
		}
	}
	assert.Greater(t, bubbles, 20)
}

// registry are the packages that a cluster runs or an application imports.
var registry = []string{".", "./slot", "./lease", "./blacklist", "./sql/...", "./elector/...", "./wire/...", "./meta/...", "./data/...", "./session/...", "./client", "./cmd/meta", "./cmd/session", "./cmd/data", "./cmd/node"}

// TestRegistry_DoesNotKnowTheTestbed checks that no package of the registry
// depends, directly or not, on the testbed, the lab, ZooKeeper, Docker or the
// embedded database. Test files do not count, nor do the helpers of
// elections' tests.
func TestRegistry_DoesNotKnowTheTestbed(t *testing.T) {
	cmd := exec.Command("go", append([]string{"list", "-f", `{{.Module.Path}} {{.ImportPath}} {{join .Deps " "}}`}, registry...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		module, pkg := f[0], f[1]
		for _, never := range []string{module + "/testbed", module + "/lab", module + "/internal/devdb", module + "/internal/mysqltest", module + "/internal/zktest",
			"github.com/go-zookeeper", "github.com/ory/dockertest", "github.com/docker", "github.com/dolthub"} {
			if strings.HasPrefix(pkg, module+"/elector/electortest") {
				continue
			}
			for _, dep := range f[2:] {
				assert.False(t, dep == never || strings.HasPrefix(dep, never+"/"), "%s depends on %s", pkg, dep)
			}
		}
	}
}

// parse reads the table into: package -> all that it may import.
func parse(t *testing.T, rules string) map[string][]string {
	allowed := map[string][]string{"NONE": nil}
	for line := range strings.SplitSeq(rules, ";") {
		sides := strings.Split(line, "<")
		for i := range sides[1:] {
			var may []string
			for _, p := range fields(sides[i]) {
				inner, known := allowed[p]
				require.True(t, known, "%q stands on the left before it stands on the right", p)
				may = append(may, inner...)
				if p != "NONE" {
					may = append(may, p)
				}
			}
			for _, p := range fields(sides[i+1]) {
				all := append(slices.Clone(allowed[p]), may...)
				slices.Sort(all)
				allowed[p] = slices.Compact(all)
			}
		}
	}
	return allowed
}

func fields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
}

func list(t *testing.T) map[string][]string {
	return golist(t, func(_, name string) (string, bool) { return name, name != "" })
}

func foreign(t *testing.T) map[string][]string {
	return golist(t, func(imp, name string) (string, bool) { return imp, name == "" })
}

// golist asks the go command for every package and what it imports, tests not
// counted. keep gets an import and its name in the table, which is empty for a
// package of another module.
func golist(t *testing.T, keep func(imp, name string) (string, bool)) map[string][]string {
	cmd := exec.Command("go", "list", "-f", `{{.Module.Path}} {{.ImportPath}} {{join .Imports " "}}`, "conclave/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		nameOf := func(imp string) string {
			if imp == f[0] {
				return "conclave"
			}
			name, ok := strings.CutPrefix(imp, f[0]+"/")
			if !ok {
				return ""
			}
			return name
		}
		name := nameOf(f[1])
		packages[name] = nil
		for _, imp := range f[2:] {
			if p, ok := keep(imp, nameOf(imp)); ok {
				packages[name] = append(packages[name], p)
			}
		}
	}
	require.NotEmpty(t, packages)
	return packages
}
