package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/meta/metaclient"
	"conclave/testbed/scenario"
)

// commands calls f for every command that is shown.
func commands(cmd *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		if sub.Runnable() && !sub.HasSubCommands() {
			f(sub)
		}
		commands(sub, f)
	}
}

// Each command has examples, and they are valid calls of it.
func TestExamples(t *testing.T) {
	commands((&app{}).root(), func(cmd *cobra.Command) {
		assert.NotEmpty(t, cmd.Example, commandName(cmd))
		assert.NotContains(t, strings.ToLower(cmd.Short[:1]), cmd.Short[:1], "a verb that begins the line: %s", cmd.Short)
		assert.LessOrEqual(t, len(cmd.Short), 60, cmd.Short)
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), "   ")
			if strings.Contains(line, "'") { // a shell's quotes
				continue
			}
			root := (&app{}).root()
			args := signalFlags(strings.Fields(strings.TrimPrefix(line, "conclave ")))
			found, rest, err := root.Find(args)
			require.NoError(t, err, line)
			assert.Equal(t, strings.Fields(commandName(found))[0], args[0], line)
			require.NoError(t, found.ParseFlags(rest), line)
			if found.Name() != "lead" {
				assert.NoError(t, found.ValidateArgs(found.Flags().Args()), line)
			}
		}
	})
}

var (
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```$|^    [^\n]*$")
	codeWords   = regexp.MustCompile("`(?:bin/)?conclave ([a-z][^`]*)`")
	toolCommand = regexp.MustCompile(`(?m)bin/conclave ([a-z][^#&|)\n]*)`)
	codeFlag    = regexp.MustCompile("`(--[a-z][a-z-]*)[^`]*`")
)

// Each command that the pages show is a valid call, and each flag is one of the
// programs'.
func TestPages_NameCommandsAndFlags(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md", "../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	var source []byte
	for _, pattern := range []string{"../*/*.go", "../../*/*cmd/*.go", "../../internal/cli/*.go", "../../internal/devdb/devdbcmd/*.go", "../../internal/node/*.go", "../../testbed/simulated/*/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range found {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source = append(source, text...)
		}
	}
	called := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		calls := codeWords.FindAllSubmatch(text, -1)
		for _, block := range codeBlock.FindAll(text, -1) {
			calls = append(calls, toolCommand.FindAllSubmatch(block, -1)...)
		}
		for _, m := range calls {
			called++
			checkCall(t, page, strings.ReplaceAll(string(m[1]), "$S ", ""))
		}
		for _, m := range codeFlag.FindAllSubmatch(text, -1) {
			ours := bytes.Contains(source, []byte(`"`+string(m[1][2:])+`"`))
			others := string(m[1]) == "--alias" || string(m[1]) == "--add-opens" // Docker's, and Java's
			assert.True(t, ours || others, "%s: no program has %s", page, m[1])
		}
	}
	assert.Greater(t, called, 40, "the pages were understood")
}

// checkCall checks the words of a call: its command, its flags, and the scenarios
// that it names.
func checkCall(t *testing.T, page, call string) {
	args := signalFlags(strings.Fields(call))
	if args[0] == "help" || args[0] == "completion" {
		return
	}
	found, rest, err := (&app{}).root().Find(args)
	if !assert.NoError(t, err, "%s: conclave %s", page, call) || slices.Contains(rest, "--help") {
		return
	}
	assert.Equal(t, strings.Fields(commandName(found))[0], args[0], "%s: conclave %s", page, call)
	if err := found.ParseFlags(rest); err != nil {
		assert.Regexp(t, `invalid argument "[A-Z]+"`, err.Error(), "%s: conclave %s", page, call) // the reader's value
	}
	if commandName(found) == "chaos run" {
		for _, name := range found.Flags().Args() {
			if _, err := scenario.Builtin(name); name != stormName && name == strings.ToLower(name) {
				assert.NoError(t, err, "%s: conclave %s", page, call)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"--version", "--dir", "x"}} {
		assert.Equal(t, "conclave version "+version+"\n", tool(t, args...).stdout)
	}
	assert.Equal(t, version+"\n", tool(t, "version").stdout)
	assert.JSONEq(t, `{"version":"`+version+`"}`, tool(t, "version", "--json").stdout)
}

// --meta is refused where another cluster would be affected.
func TestMeta_IsRefusedByCommandsOfOtherClusters(t *testing.T) {
	for _, command := range []string{"demo", "ps", "chaos list"} {
		r := tool(t, append(strings.Fields(command), "--meta", "127.0.0.1:1")...)
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.stderr, "--meta does not apply to "+command)
	}
}

func TestCompletion_OfNames(t *testing.T) {
	meta := fakeMeta(t, map[string]any{
		"GET /v1/nodes": []metaclient.NodeInfo{
			{Name: "meta-1", Role: "meta"}, {Name: "data-1", Role: "data"}, {Name: "data-2", Role: "data"}, {Name: "session-1", Role: "session"},
		},
	})
	for line, want := range map[string]string{
		"drain ":            "meta-1 data-1 data-2 session-1",
		"drain data-1 ":     "",
		"blacklist add ":    "data-1 data-2 session-1",
		"election observe ": "meta-1",
		"nodes --role ":     "meta data session",
		"up --takeover ":    "witness lease",
		"chaos run ":        strings.Join(append(scenario.Names(), "storm"), " "),
	} {
		words := strings.Split(line, " ")
		r := tool(t, append([]string{"__complete", "--meta", meta}, words...)...)
		var got []string
		for word := range strings.Lines(r.stdout) {
			if word = strings.TrimSpace(word); !strings.HasPrefix(word, ":") {
				got = append(got, word)
			}
		}
		assert.Equal(t, want, strings.Join(got, " "), "%s\n%s", line, r.stderr)
	}
}

func TestHelp_OfAnUnknownCommandIsAnError(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "nosuch" for "conclave"`:                              {"nosuch"},
		`unknown command "blacklst" for "conclave" Did you mean this? blackl`:  {"blacklst"},
		`invalid argument "remov" for "conclave blacklist" Did you mean this?`: {"blacklist", "remov"},
	} {
		r := tool(t, append([]string{"help"}, args...)...)
		assert.Equal(t, exitUsage, r.code)
		assert.Contains(t, r.stderr, want)
		assert.Empty(t, r.stdout)
	}
	r := tool(t, "help", "blacklist", "remove")
	assert.Equal(t, exitDone, r.code)
	assert.Contains(t, r.stdout, "conclave blacklist remove NAME")
}

func TestHelp_ShowsFlagsAsTheyAreUsed(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help", "up"}, {"up", "--help"}, {"help", "blacklist", "add"}} {
		text := tool(t, args...).stdout
		assert.NotContains(t, text, "true|false", args)
		assert.Regexp(t, `(?m)^      --json {10,}print JSON`, text, args)
	}
}

func TestHelp_GroupsShowNoFlagsOfTheirOwn(t *testing.T) {
	for _, group := range []string{"blacklist", "scenario", "switch", "config", "chaos"} {
		assert.NotContains(t, tool(t, group, "--help").stdout, "conclave "+group+" [flags]")
	}
}
