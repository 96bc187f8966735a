package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	entriesEach = 20 // of a map, in one function
	casesEach   = 60 // of the parser's switch
	schemas     = 40 // of the engine's own tables, at least
)

// split splits the functions of a megabyte: the parser's, and those that initialize the
// engine's variables. V8's optimizing compiler takes a minute and 400 MB for such a one.
func split(m modules) error {
	for _, v := range []struct{ file, name, of string }{{"status_variables.go", "statusVars", "sql.StatusVariable"}, {"system_variables.go", "systemVars", "sql.SystemVariable"}} {
		if err := m[engine].edit("sql/variables/"+v.file, func(text string) (string, error) { return splitMap(text, v.name, v.of) }); err != nil {
			return err
		}
	}
	if err := m[engine].edit("sql/information_schema/information_schema.go", splitSchemas); err != nil {
		return err
	}
	return m[parser].edit("go/vt/sqlparser/sql.go", splitParser)
}

var entry = regexp.MustCompile(`^\t("[^"]+"): `)

// splitMap makes functions that fill a map of the literal that is its value.
func splitMap(text, name, of string) (string, error) {
	lines := strings.Split(text, "\n")
	from := slices.Index(lines, "var "+name+" = map[string]"+of+"{")
	if from < 0 {
		return "", fmt.Errorf("there is no map %s", name)
	}
	to := from + slices.Index(lines[from:], "}")
	var entries []string
	open := false
	for _, l := range lines[from+1 : to] {
		key := entry.FindStringSubmatch(l)
		switch {
		case open:
			entries[len(entries)-1] += "\n" + l
			open = l != "\t},"
		case key != nil:
			entries = append(entries, "\tm["+key[1]+"] = "+l[len(key[0]):])
			open = !strings.HasSuffix(l, "},")
		case strings.TrimSpace(l) != "" && !strings.HasPrefix(strings.TrimSpace(l), "//"):
			return "", fmt.Errorf("%q is no entry of %s", l, name)
		}
	}
	if len(entries) < entriesEach {
		return "", fmt.Errorf("%s has %d entries", name, len(entries))
	}
	calls, functions := "", ""
	n := 0
	for some := range slices.Chunk(entries, entriesEach) {
		calls += fmt.Sprintf("\t%s%d(m)\n", name, n)
		functions += fmt.Sprintf("//go:noinline\nfunc %s%d(m map[string]%s) {\n", name, n, of)
		for _, x := range some {
			functions += strings.TrimSuffix(x, ",") + "\n"
		}
		functions += "}\n\n"
		n++
	}
	return strings.Join(lines[:from], "\n") + fmt.Sprintf("\nvar %s = func() map[string]%s {\n\tm := map[string]%s{}\n%s\treturn m\n}()\n\n%s", name, of, of, calls, functions) +
		strings.Join(lines[to+1:], "\n"), nil
}

var schema = regexp.MustCompile(`(?ms)^var (\w+) = Schema\{\n(.*?)^\}\n`)

// splitSchemas makes a function of each schema that is the value of a variable.
func splitSchemas(text string) (string, error) {
	if n := len(schema.FindAllString(text, -1)); n < schemas {
		return "", fmt.Errorf("%d schemas, want at least %d", n, schemas)
	}
	return schema.ReplaceAllString(text, "var $1 = new_$1()\n\n//go:noinline\nfunc new_$1() Schema {\n\treturn Schema{\n$2\t}\n}\n"), nil
}

var oneCase = regexp.MustCompile(`^\tcase (\d+):$`)

// splitParser makes functions of parts of the switch in which the parser reduces.
func splitParser(text string) (string, error) {
	lines := strings.Split(text, "\n")
	from, to := slices.Index(lines, "\tswitch yynt {"), len(lines)-1
	for to > 0 && !strings.HasPrefix(lines[to], "\tgoto yystack") {
		to--
	}
	if from < 0 || to < from || lines[to-1] != "\t}" {
		return "", fmt.Errorf("the parser's switch is not found")
	}
	var cases [][]string
	for _, l := range lines[from+1 : to-1] {
		switch {
		case oneCase.MatchString(l):
			cases = append(cases, []string{l})
		case len(cases) > 0:
			cases[len(cases)-1] = append(cases[len(cases)-1], l)
		case strings.TrimSpace(l) != "":
			return "", fmt.Errorf("%q stands before the first case", l)
		}
	}
	if len(cases) < casesEach {
		return "", fmt.Errorf("the parser has %d cases", len(cases))
	}
	const with = "yynt int, yyS []yySymType, yypt int, yyVAL *yySymType, yylex yyLexer"
	which, functions := "", ""
	n := 0
	for some := range slices.Chunk(cases, casesEach) {
		which += fmt.Sprintf("\tcase yynt <= %s:\n\t\treturn yyReduce%d(yynt, yyS, yypt, yyVAL, yylex)\n", oneCase.FindStringSubmatch(some[len(some)-1][0])[1], n)
		functions += fmt.Sprintf("//go:noinline\nfunc yyReduce%d(%s) int {\n\tvar yyDollar []yySymType\n\t_ = yyDollar\n\tswitch yynt {\n%s\n\t}\n\treturn 0\n}\n\n", n, with, strings.Join(slices.Concat(some...), "\n"))
		n++
	}
	return strings.Join(lines[:from], "\n") + "\n\tif yyReduce(yynt, yyS, yypt, &yyVAL, yylex) != 0 {\n\t\treturn 1\n\t}\n" + strings.Join(lines[to:], "\n") +
		fmt.Sprintf("\n\nfunc yyReduce(%s) int {\n\tswitch {\n%s\t}\n\treturn 0\n}\n\n%s", with, which, functions), nil
}
