package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/trace"
	"conclave/testbed"
	"conclave/testbed/scenario"
)

func TestParse_ReadsEveryStatement(t *testing.T) {
	s, err := scenario.Parse("x/kill.txt", `
# A scenario.
# In two lines.
cluster 5 meta 2 session 4 data 32 slots 3 replicas
takeover lease
lease 1s
clients 6 names 3 every 500ms replace 2s

at 2s kill leader for 1lease   # and it comes back
at 3s cut one way data-1 -> half of sessions for lease+500ms
every 2s from 4s to 8s skew clock of a meta by -1h
at 5s hold it at writing for 1s
at 5s lose the next answer of db to follower
at 6s expect served without owner of 3 within 2lease+1s
at 6s expect held leader at writing for 200ms
at 6s hold one owner of 3 at storing for 2s
until 12s
figure leaderless
`)
	require.NoError(t, err)
	assert.Equal(t, "kill", s.Name)
	assert.Equal(t, "A scenario.\nIn two lines.", s.About)
	assert.Equal(t, testbed.Size{Metas: 5, Sessions: 2, Datas: 4, Slots: 32, Replicas: 3, Takeover: "lease", Lease: time.Second}, s.Cluster)
	assert.Equal(t, scenario.Load{Clients: 6, Names: 3, Every: 500 * time.Millisecond, Replace: 2 * time.Second}, s.Load)
	require.Len(t, s.Lines, 8)
	assert.Equal(t, &testbed.Step{Verb: testbed.Kill, Who: "leader", For: time.Second}, s.Lines[0].Step)
	assert.Equal(t, &testbed.Step{Verb: testbed.CutOne, Who: "data-1", Whom: "half of sessions", For: 1500 * time.Millisecond}, s.Lines[1].Step)
	assert.Equal(t, &testbed.Step{Verb: testbed.Skew, Who: "a meta", By: -time.Hour}, s.Lines[2].Step)
	assert.Equal(t, 2*time.Second, s.Lines[2].Every)
	assert.Equal(t, &testbed.Step{Verb: testbed.Hold, Who: "it", Point: trace.Writing, For: time.Second}, s.Lines[3].Step)
	assert.Equal(t, &testbed.Step{Verb: testbed.LoseNext, Who: "follower", Whom: testbed.Database}, s.Lines[4].Step)
	assert.Equal(t, &scenario.Expectation{What: "served without", Who: "owner of 3", Within: 3 * time.Second}, s.Lines[5].Expect)
	assert.Equal(t, &scenario.Expectation{What: "held", Who: "leader", Point: trace.Writing, For: 200 * time.Millisecond}, s.Lines[6].Expect)
	assert.Equal(t, &testbed.Step{Verb: testbed.HoldOne, Who: "owner of 3", Point: trace.Storing, For: 2 * time.Second}, s.Lines[7].Step)
	assert.Equal(t, []testbed.Verb{testbed.CutOne, testbed.Hold, testbed.HoldOne, testbed.Kill, testbed.LoseNext, testbed.Skew}, s.Needs())
}

func TestParse_AddressesPortsAndRefusals(t *testing.T) {
	const text = `cluster 3 meta 2 session 3 data 16 slots 2 replicas
at 1s start session-1 at a wrong address for 5s
at 2s close port of session-2 for 3s
at 3s announce stop to datas and be accepted
at 4s forbid sessions at once and be refused for 2s
at 5s resign leader by force
at 6s switch protection-floor to 9 and be refused
at 7s expect partial within 2s
until 9s
`
	s, err := scenario.Parse("x.txt", text)
	require.NoError(t, err)
	assert.Equal(t, text, s.String())
	want := []*testbed.Step{
		{Verb: testbed.StartWrong, Who: "session-1", For: 5 * time.Second}, {Verb: testbed.ClosePort, Who: "session-2", For: 3 * time.Second},
		{Verb: testbed.AnnounceStop, Who: "datas", MustAccept: true}, {Verb: testbed.Forbid, Who: "sessions", AtOnce: true, MustRefuse: true, For: 2 * time.Second},
		{Verb: testbed.Resign, Who: "leader", Force: true}, {Verb: testbed.Switch, Who: "protection-floor", Whom: "9", MustRefuse: true},
	}
	for i, d := range want {
		assert.Equal(t, d, s.Lines[i].Step)
	}
}

func TestParse_BudgetsAndBursts(t *testing.T) {
	const text = `cluster 3 meta 2 session 3 data 16 slots 2 replicas
budget session 20µs a message 10ns a byte
budget data 1ms a message 0s a byte queue 65536
budget db 0s a message 5µs a byte
clients 4 names 4 every 200ms bulk 50
at 5s burst by 20 for 4s
at 12s burst by 100
at 13s end burst
at 14s burst of 300
until 20s
`
	s, err := scenario.Parse("x.txt", text)
	require.NoError(t, err)
	assert.Equal(t, text, s.String())
	assert.Equal(t, testbed.Budgets{
		Session:  testbed.Budget{Message: 20 * time.Microsecond, Byte: 10},
		Data:     testbed.Budget{Message: time.Millisecond, Queue: 65536},
		Database: testbed.Budget{Byte: 5 * time.Microsecond},
	}, s.Cluster.Budgets)
	assert.Equal(t, 50, s.Load.Bulk)
	assert.Equal(t, &testbed.Step{Verb: testbed.Burst, Factor: 20, For: 4 * time.Second}, s.Lines[0].Step)
	assert.Equal(t, &testbed.Step{Verb: testbed.EndBurst}, s.Lines[2].Step)
	assert.Equal(t, &testbed.Step{Verb: testbed.Burst, Arrivals: 300}, s.Lines[3].Step)
	assert.Nil(t, s.Refusals(nil), "the simulator")
	assert.Equal(t, []string{"a budget (only simulated nodes have one; a real node computes as fast as its machine)"}, s.Refusals(&testbed.Capabilities{}))
	s.Cluster.Budgets = testbed.Budgets{}
	assert.Empty(t, s.Refusals(&testbed.Capabilities{}), "a burst is possible everywhere")
}

func TestParse_Scenes(t *testing.T) {
	const text = `# Two scenes.
cluster 3 meta 2 session 3 data 16 slots 2 replicas
scene KILL -9
# It dies.
# It is back.
look at election list, events
at 0s kill leader for 2s
at 1s expect ready within 1s
until 4s
then
at 0s start it
scene REST
at 0s expect connected within 1s
until 1s
figure leaderless
`
	s, err := scenario.Parse("x.txt", text)
	require.NoError(t, err)
	assert.Equal(t, text, s.String())
	assert.Equal(t, 5*time.Second, s.Until)
	require.Len(t, s.Scenes, 3)
	assert.Equal(t, scenario.Scene{Title: "KILL -9", About: "It dies.\nIt is back.", Look: "election list, events", Until: 4 * time.Second}, s.Scenes[0])
	assert.Empty(t, s.Scenes[1])
	assert.Equal(t, []int{2, 3}, []int{s.Lines[2].Scene, s.Lines[3].Scene})

	s, err = scenario.Parse("x.txt", "scene A\nat 0s kill leader for 2s\nscene B\nat 3s start leader")
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{2 * time.Second, 3 * time.Second}, []time.Duration{s.Scenes[0].Until, s.Scenes[1].Until}, "until the last line ends")
}

func TestParse_NamesWhatIsInvalid(t *testing.T) {
	for text, want := range map[string]string{
		"at 2s kil leader":                           `x.txt:1: unknown action "kil"`,
		"cluster 3 meta\n\nat 2s kill leder":         `x.txt:3: unknown selector "leder"`,
		"at soon kill leader":                        `x.txt:1: invalid duration "soon"`,
		"at 2s kill leader twice":                    `x.txt:1: unexpected "twice" at the end of the line`,
		"at 2s cut leader db":                        `x.txt:1: want "from", found "db"`,
		"at 2s hold leader at thinking":              `x.txt:1: unknown point "thinking"`,
		"at 2s expect peace within 2s":               `x.txt:1: unknown expectation "peace within 2s"`,
		"at 2s expect leader":                        `x.txt:1: expect leader: want within DURATION or for DURATION`,
		"at 2s reset links of db for 2s":             `x.txt:1: reset does not last: want no "for"`,
		"at 2s slow db":                              `x.txt:1: slow db: want by DURATION or rate BYTES`,
		"at 2s slow db for 2s":                       `x.txt:1: slow db: want by DURATION or rate BYTES`,
		"at 2s slow db jitter 5ms for 2s":            `x.txt:1: slow db: want by DURATION or rate BYTES`,
		"at 2s set clock of db to tomorrow":          `x.txt:1: invalid time "tomorrow"`,
		"every 0s from 1s to 2s kill leader":         `x.txt:1: every 0s: want a duration above 0`,
		"figure beauty":                              `x.txt:1: unknown figure "beauty"`,
		"takeover force":                             `x.txt:1: unknown takeover "force" (want witness or lease)`,
		"cluster 3 kings":                            `x.txt:1: unknown word "kings" (want meta, session, data, slots or replicas)`,
		"cluster 3 meta 2 session 3 data 12 slots":   `x.txt: 12 slots: want a power of two`,
		"at 20s kill leader\nuntil 10s":              `x.txt: line 1: 20s is after the end (until 10s)`,
		"sing":                                       `x.txt:1: unknown statement "sing" (want cluster, takeover`,
		"every 1ms from 0s to 1000s kill leader":     `x.txt: line 1: more than 10,000 repetitions`,
		"at 1s kill a king":                          `x.txt:1: unknown selector "a king"`,
		"at 1s lose the last answer of db to meta-1": `x.txt:1: want "the next answer of", found "the last answer of db to meta-1"`,
		"at 1s expect leader for 0s":                 `x.txt:1: for 0s: want a duration above 0`,
		"scene":                                      `x.txt:1: scene: want a title`,
		"then":                                       `x.txt:1: then: want it in a scene`,
		"at 1s kill session of meta-1":               `x.txt:1: unknown selector "session of meta-1"`,
		"look at slots":                              `x.txt:1: look at: want it in a scene`,
		"at 1s kill leader\nscene A":                 `x.txt: line 1: at 1s kill leader stands before the first scene`,
		"scene A\nat 2s kill leader\nuntil 1s":       `x.txt: line 2: 2s is after the end (until 1s)`,
		"clients 3 names 0":                          `x.txt: clients without names`,
		"budget king 1ms a message 1ns a byte":       `x.txt:1: unknown role "king" (want one of meta, session, data, db, client)`,
		"budget data 1ms for a message":              `x.txt:1: want "a message", found "for a message"`,
		"budget data 2s a message 1ns a byte":        `x.txt:1: budget of data: invalid duration 2s (want 0s to 1s)`,
		"budget data 1ms a message -1ns a byte":      `x.txt:1: budget of data: invalid duration -1ns (want 0s to 1s)`,
		"budget data 0s a message 0s a byte":         `x.txt:1: budget of data: want a time above 0 for a message or for a byte`,
		"at 1s database refuses it with 1064":        `x.txt:1: unknown statements "it" (want one of statements, writes`,
		"at 1s database refuses writes":              `x.txt:1: want "with", found`,
		"at 1s database refuses writes with 0":       `x.txt:1: invalid number "0" (want 1 to 65535)`,
		"at 1s database stops":                       `x.txt:1: want "accepts", found "stops"`,
		"at 1s burst by 0":                           `x.txt:1: invalid number "0" (want 1 to 1000)`,
		"at 1s burst up 5":                           `x.txt:1: want "by", found "up 5"`,
		"at 1s burst of 0":                           `x.txt:1: invalid number "0" (want 1 to 10000)`,
		"at 1s burst of 5":                           `x.txt: line 1: burst of 5: want clients that stay (clients N)`,
		"at 1s burst by 5":                           `x.txt: line 1: burst by 5: want clients that change values (clients N every D)`,
		"clients 2 every 1s\nat 1s end it":           `x.txt:2: want "burst", found "it"`,
		"clients 2 every 1s\nat 1s end burst for 1s": `x.txt:2: end burst does not last: want no "for"`,
	} {
		_, err := scenario.Parse("x.txt", text)
		if assert.Error(t, err, text) {
			assert.True(t, strings.HasPrefix(err.Error(), want), "%s: %s", text, err)
		}
	}
}

// Every built-in scenario can be parsed, has a comment and a figure, and is
// equal after String and Parse.
func TestBuiltin_ScenariosAreComplete(t *testing.T) {
	names := scenario.Names()
	assert.GreaterOrEqual(t, len(names), 24)
	for _, name := range names {
		s, err := scenario.Builtin(name)
		require.NoError(t, err, name)
		assert.NotEmpty(t, s.About, name)
		assert.NotEmpty(t, s.Figures, name)
		again, err := scenario.Parse(name+".txt", s.String())
		require.NoError(t, err, "%s:\n%s", name, s)
		for i := range s.Lines {
			s.Lines[i].Number, again.Lines[i].Number = 0, 0
		}
		assert.Equal(t, s, again, name)
	}
	f4, err := scenario.Builtin("F4")
	require.NoError(t, err)
	assert.Equal(t, "f04-held-before-the-write", f4.Name)
}

func TestExamples_AreComplete(t *testing.T) {
	files, err := filepath.Glob("examples/*.txt")
	require.NoError(t, err)
	assert.Len(t, files, 3)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		s, err := scenario.Parse(name, string(text))
		require.NoError(t, err)
		assert.NotEmpty(t, s.About, name)
		assert.NotEmpty(t, s.Figures, name)
	}
}

func TestBuiltin_SuggestsSimilarNames(t *testing.T) {
	for name, want := range map[string]string{
		"magic":           `there is no scenario "magic"`,
		"nothing":         `there is no scenario "nothing" (near it: f23-half-of-the-sessions-hear-nothing-new)`,
		"f99":             `there is no scenario "f99" (near it: f09-slow-database, f19-kill-a-session)`,
		"kil-the-leader":  `there is no scenario "kil-the-leader" (near it: f01-kill-the-leader)`,
		"Pause":           `there is no scenario "Pause" (near it: f03-pause-the-leader, session-paused-over-its-lease)`,
		"published-latte": `there is no scenario "published-latte" (near it: published-late)`,
		"f2x":             `there is no scenario "f2x" (near it: f20-stop-a-session-and-a-data-node, f21-a-data-node-that-flaps, f22-half-of-the-data-nodes-vanish)`,
		"f0":              `9 scenarios begin with "f0", as f01-kill-the-leader, f02-stop-the-leader, f03-pause-the-leader`,
	} {
		_, err := scenario.Builtin(name)
		assert.EqualError(t, err, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range scenario.Names() {
		if s, err := scenario.Builtin(name); err == nil {
			f.Add(s.String())
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse("fuzz.txt", text)
		if err != nil {
			return
		}
		again, err := scenario.Parse("fuzz.txt", s.String())
		require.NoError(t, err, s.String())
		assert.Equal(t, s.String(), again.String())
	})
}

func TestParse_RefusesAnEmptyScenario(t *testing.T) {
	for _, text := range []string{"", "# only a comment\n"} {
		_, err := scenario.Parse("mine.txt", text)
		assert.EqualError(t, err, "mine.txt: empty: no action and no expectation")
	}
}
