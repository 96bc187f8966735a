package archtest

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rules is the import table, a statement of policy (the form is that of the Go
// standard library's deps_test.go). "a < b" means b may import a, and whatever
// a may import; NONE stands for nothing of this module. A package on the right
// of several lines may import what each of them allows.
const rules = `
	NONE < conclave;
	conclave < slot, lease, blacklist, internal/trace;
	NONE < wire/v1 < wire/v1/wirev1connect;
	slot, lease, blacklist, internal/trace, wire/v1/wirev1connect < wire;
	NONE < internal/stage, internal/compose, internal/sleep, internal/signal;
	internal/sleep < internal/node, meta, meta/metaclient, chaos, bench, lab, cmd/conclave, elector/rowlock, elector/zklatch;
	internal/signal < elector, data, session, client, meta/metaclient, lab;
	conclave < sql;

	NONE < internal/logging;
	conclave < elector;
	elector < elector/electortest;
	elector, sql < elector/termcas, elector/versioncas, elector/rowlock, elector/fence;
	elector < elector/zklatch < elector/zklatch/memtree;
	NONE < internal/zktest;

	wire < wire/serve < meta/metaclient, internal/cli;
	wire < meta/metaclient, client, sim/simnet;
	wire, meta/metaclient < internal/node;
	internal/node, elector, sql, internal/stage, internal/logging, lease < meta;
	wire < data/store;
	data/store < data;
	internal/node, internal/stage < data, session;

	internal/trace, slot, client < chaos;
	client, internal/sleep < chaos/soak;
	conclave < internal/devdb < internal/mysqltest;
	elector/electortest, sql, internal/mysqltest, sim/simnet < elector/electortest/sqlworld;
	conclave, slot, meta/metaclient < internal/supervisor;
	NONE < internal/faultnet;
	chaos, meta/metaclient < chaos/outside;
	chaos/outside, internal/faultnet, internal/supervisor < chaos/processes;
	chaos/outside, internal/compose < chaos/containers;
	internal/node < internal/cli;
	client, meta/metaclient, internal/supervisor < bench;

	meta, elector/termcas, sql, internal/cli < cmd/meta;
	data, internal/cli < cmd/data;
	session, internal/cli < cmd/session;
	internal/devdb, internal/cli < cmd/devdb;
	client, meta/metaclient, bench, internal/supervisor, internal/compose, internal/cli, internal/logging, elector/termcas, elector/fence < cmd/conclave;
	chaos/processes, chaos/containers, chaos/soak < cmd/conclave;
	elector/termcas, elector/versioncas, elector/rowlock, elector/zklatch/memtree, internal/faultnet < lab < cmd/conclave;
	internal/node, meta, data, session, client, chaos, elector/termcas, sim/simnet, internal/devdb, internal/logging < sim;
	NONE < sim/onetrace, sim/mutate;

	elector/termcas, elector/rowlock, elector/fence, elector/zklatch/memtree < lab/oversell < cmd/conclave;
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
	for _, rule := range []struct {
		what string
		may  []string
	}{
		{"github.com/dolthub/go-mysql-server", []string{"internal/devdb"}},
		{"database/sql", []string{"sql", "elector/termcas", "elector/rowlock", "elector/fence", "internal/mysqltest", "cmd/conclave", "lab/oversell"}}, // the tool asks the database how much it was asked; the lab's shop is a product
		{"github.com/spf13/cobra", []string{"internal/cli", "cmd/"}},
		{"github.com/go-zookeeper/zk", []string{"elector/zklatch"}},
		{"testing", []string{"internal/zktest", "elector/electortest", "internal/mysqltest", "sim"}},
		{"github.com/ory/dockertest", []string{"internal/zktest", "internal/mysqltest"}},
	} {
		for pkg, imports := range foreign(t) {
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
