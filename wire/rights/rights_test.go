package rights_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "conclave/internal/bubble"
	"conclave/wire/rights"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const some = `# who may do what
read     page   r1
publish  shop   p1
publish  shop   p2
node     data-1 n1
node     all    n2
operator amy    o1
`

func write(t *testing.T, file, text string, mode os.FileMode) {
	require.NoError(t, os.WriteFile(file+".new", []byte(text), mode))
	require.NoError(t, os.Chmod(file+".new", mode))
	require.NoError(t, os.Rename(file+".new", file))
}

func open(t *testing.T, text string, report func(error)) (*rights.Tokens, string) {
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, text, 0o600)
	tokens, err := rights.OpenFile(file, report)
	require.NoError(t, err)
	return tokens, file
}

func TestIdentify_EachTokenHasItsNameAndRight(t *testing.T) {
	tokens, _ := open(t, some, nil)
	for token, want := range map[string]rights.Identity{
		"r1": {Name: "page", Right: rights.Read}, "p1": {Name: "shop", Right: rights.Publish}, "p2": {Name: "shop", Right: rights.Publish},
		"n1": {Name: "data-1", Right: rights.Node}, "o1": {Name: "amy", Right: rights.Operator},
	} {
		id, ok := tokens.Identify(token, "here:1")
		assert.True(t, ok, token)
		assert.Equal(t, want, id)
	}
	for _, token := range []string{"", "r", "r11", "page", "shop p1"} {
		id, ok := tokens.Identify(token, "here:1")
		assert.False(t, ok, token)
		assert.Zero(t, id)
	}
	var none *rights.Tokens
	id, ok := none.Identify("", "here:1")
	assert.True(t, ok)
	assert.True(t, id.May(rights.Operator), "without tokens everything is allowed")
}

func TestMay_HigherRightsImplyLowerOnes(t *testing.T) {
	order := []rights.Right{rights.Open, rights.Read, rights.Publish, rights.Node, rights.Operator}
	for i, has := range order {
		for j, needs := range order {
			assert.Equal(t, i >= j, rights.Identity{Right: has}.May(needs), "%s for %s", has, needs)
		}
	}
}

func TestToken_NodeSendsItsOwn(t *testing.T) {
	tokens, _ := open(t, some, nil)
	assert.Equal(t, "n1", tokens.Token(rights.Node, "data-1"))
	assert.Equal(t, "n1", tokens.Token(rights.Node, "session-1"), "the first of its right")
	assert.Equal(t, "n2", tokens.Token(rights.Node, "all"))
	bare, _ := open(t, "secret\n", nil)
	assert.Equal(t, "secret", bare.Token(rights.Node, "data-1"))
	assert.Equal(t, "", (*rights.Tokens)(nil).Token(rights.Node, "data-1"))
}

func TestParse_NamesTheLineAndNoToken(t *testing.T) {
	for text, want := range map[string]string{
		"read a s3cret\nwrite b s3cret": "line 2: unknown right (want read, publish, node, operator)",
		"read s3cret":                   "line 1: 2 words",
		"\n#\nread a s3cret more":       "line 3: 4 words",
		"":                              "no token",
		"# only this":                   "no token",
		"read a s3cret\nnode b s3cret":  "line 2: the token of node b is also that of read a",
		"read ä s3cret":                 "line 1: a name or token is invalid",
		"node a s3cret" + strings.Repeat("x", 300): "line 1: a name or token is invalid",
	} {
		_, err := rights.Parse(text)
		require.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "s3cret")
	}
}

func TestReadFile_RefusesWhatOthersCanRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	for _, mode := range []os.FileMode{0o640, 0o604, 0o666} {
		write(t, file, some, mode)
		_, err := rights.ReadFile(file)
		assert.ErrorContains(t, err, "want 0600", "%o", mode)
	}
	write(t, file, some, 0o400)
	_, err := rights.ReadFile(file)
	assert.NoError(t, err)
	write(t, file, "a-token-alone\n", 0o644)
	_, err = rights.ReadFile(file)
	assert.NoError(t, err, "as before there were rights")
	_, err = rights.ReadFile(file + ".none")
	assert.Error(t, err)
}

// A file that cannot be read or parsed keeps the tokens of the last good one.
func TestReload_BadFileChangesNothing(t *testing.T) {
	var reports []error
	tokens, file := open(t, some, func(err error) { reports = append(reports, err) })
	for _, bad := range []func(){
		func() { write(t, file, "node data-1\n", 0o600) },
		func() { write(t, file, "", 0o600) },
		func() { write(t, file, some, 0o644) },
		func() { require.NoError(t, os.Remove(file)) },
	} {
		bad()
		tokens.Reload()
		_, ok := tokens.Identify("p1", "here:1")
		assert.True(t, ok)
		assert.Error(t, reports[len(reports)-1])
	}
	write(t, file, "publish shop p3\n", 0o600)
	tokens.Reload()
	assert.NoError(t, reports[len(reports)-1])
	_, ok := tokens.Identify("p1", "here:1")
	assert.False(t, ok)
	_, ok = tokens.Identify("p3", "here:1")
	assert.True(t, ok)
}

func TestReload_EndsWhatIsHeldWithARevokedToken(t *testing.T) {
	tokens, file := open(t, some, func(error) {})
	ended := map[string]int{}
	for _, token := range []string{"p1", "p2", "n1", "o1"} {
		id, _ := tokens.Identify(token, "here:1")
		h := tokens.Hold(token, "here:1", id, func() { ended[token]++ })
		if token == "o1" {
			h.Release()
		}
	}
	write(t, file, "publish shop p2\nread data-1 n1\n", 0o600)
	tokens.Reload()
	assert.Equal(t, map[string]int{"p1": 1, "n1": 1}, ended, "one is not valid any more, one has another right")
}

// The token is identified before the request is held: a reload in between saw nothing
// to end.
func TestHold_AfterItsTokenWasRevokedEndsAtOnce(t *testing.T) {
	for name, revoked := range map[string]string{"not valid any more": "publish shop p2\n", "another right": "read shop p1\n"} {
		t.Run(name, func(t *testing.T) {
			tokens, file := open(t, some, func(error) {})
			id, ok := tokens.Identify("p1", "here:1")
			require.True(t, ok)
			write(t, file, revoked, 0o600)
			tokens.Reload()
			ended := 0
			tokens.Hold("p1", "here:1", id, func() { ended++ })
			assert.Equal(t, 1, ended)
		})
	}
}

// The file is read when it was the same at two checks, and at each signal.
func TestRun_ReloadsByTimeAndSignal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(dir, "tokens")
		write(t, file, some, 0o600)
		var reports atomic.Int64
		tokens, err := rights.OpenFile(file, func(error) { reports.Add(1) })
		require.NoError(t, err)
		ctx, end := context.WithCancel(t.Context())
		now, done := make(chan os.Signal), make(chan struct{})
		go func() { defer close(done); tokens.Run(ctx, now) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Zero(t, reports.Load(), "it has not changed")

		write(t, file, some+"read a a1\n", 0o600)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, reports.Load(), "it may still be changing")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 1, reports.Load())
		_, ok := tokens.Identify("a1", "here:1")
		assert.True(t, ok)

		write(t, file, some+"read a a22\n", 0o600)
		now <- os.Interrupt
		synctest.Wait()
		assert.EqualValues(t, 2, reports.Load())
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 2, reports.Load())

		require.NoError(t, os.Chmod(file, 0o644)) // refused, and said: it does not go unnoticed
		time.Sleep(4 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 3, reports.Load())
		end()
		<-done
	})
}

// What a node sends to an address that another process named is of use there only.
func TestBind_IsAcceptedAtItsAddressOnly(t *testing.T) {
	tokens, file := open(t, some, func(error) {})
	sent := rights.Bind("n1", "data-1:9622")
	id, ok := tokens.Identify(sent, "data-1:9622")
	assert.True(t, ok)
	assert.Equal(t, rights.Identity{Name: "data-1", Right: rights.Node}, id)
	for _, elsewhere := range []string{"data-2:9622", "data-1:96222", "", sent} {
		_, ok := tokens.Identify(sent, elsewhere)
		assert.False(t, ok, elsewhere)
	}
	_, ok = tokens.Identify(rights.Bind("other", "data-1:9622"), "data-1:9622")
	assert.False(t, ok)
	assert.NotContains(t, sent, "n1")
	assert.Empty(t, rights.Bind("", "data-1:9622"))

	// It is passed on as the same identity, and to the next address only.
	next := tokens.Forward(sent, "data-1:9622", "meta-1:9615")
	assert.Equal(t, rights.Bind("n1", "meta-1:9615"), next)
	assert.Equal(t, next, tokens.Forward("n1", "data-1:9622", "meta-1:9615"))
	assert.Empty(t, tokens.Forward(sent, "data-2:9622", "meta-1:9615"))
	assert.Empty(t, tokens.Forward("", "data-1:9622", "meta-1:9615"))
	var none *rights.Tokens
	assert.Empty(t, none.Forward("x", "a:1", "b:1"))

	// It is valid as long as its token: two at once in a rotation.
	ended := 0
	id, _ = tokens.Identify(sent, "data-1:9622")
	tokens.Hold(sent, "data-1:9622", id, func() { ended++ })
	write(t, file, some+"node data-1 n3\n", 0o600)
	tokens.Reload()
	for _, token := range []string{"n1", "n3"} {
		_, ok := tokens.Identify(rights.Bind(token, "data-1:9622"), "data-1:9622")
		assert.True(t, ok, token)
	}
	assert.Zero(t, ended)
	write(t, file, "node data-1 n3\n", 0o600)
	tokens.Reload()
	_, ok = tokens.Identify(sent, "data-1:9622")
	assert.False(t, ok)
	assert.Equal(t, 1, ended)

	_, err := rights.Parse("node a " + sent + "\n")
	assert.Error(t, err, "it is no token: as one it would be accepted everywhere")
}

func TestTokenFor_OnlyGivenAddressesAreSentTheToken(t *testing.T) {
	given := []string{"meta-1:9615"}
	assert.Equal(t, "n1", rights.TokenFor("n1", "meta-1:9615", given))
	assert.Equal(t, rights.Bind("n1", "meta-2:9615"), rights.TokenFor("n1", "meta-2:9615", given))
	assert.Equal(t, rights.Bind("n1", "meta-2:9615"), rights.TokenFor("n1", "meta-2:9615", nil))
}
