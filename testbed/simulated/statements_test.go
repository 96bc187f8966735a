package simulated

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/internal/trace"
	conclavesql "conclave/sql"
)

// interpolate returns a statement with its parameters inserted, as the driver
// sends it.
func interpolate(statement string, args ...any) string {
	for _, a := range args {
		text := fmt.Sprint(a)
		if s, ok := a.(string); ok {
			text = "'" + s + "'"
		}
		statement = strings.Replace(statement, "?", text, 1)
	}
	return statement
}

func TestInterceptStatement_RecognizesStatements(t *testing.T) {
	for statement, want := range map[string]string{
		conclavesql.LockWinVacant: "win", conclavesql.LockWinOwn: "win", conclavesql.LockWinExpired: "win", conclavesql.LockWinOverdue: "win",
		conclavesql.LockWinWitness: "win", conclavesql.LockResign: "resign", conclavesql.LockRenew: "", conclavesql.LockReacquire: "",
		conclavesql.StateWrite: "write", conclavesql.StateSeal: "seal", conclavesql.StateRead: "", conclavesql.HistoryRecord: "",
	} {
		assert.Equal(t, want, subject(interpolate(statement, "owner")), statement)
	}
	var claims []trace.Claim
	c := &Cluster{gate: trace.NewGate(func(c trace.Claim) { claims = append(claims, c) })}
	from, err := net.ResolveTCPAddr("tcp", "127.0.0.1:40001")
	require.NoError(t, err)
	body := "s.term = 1, s.seq = 1, s.nonce = 'x'"
	intercept := func(query string) func(uint64, error) {
		done, err := c.interceptStatement(from, query)
		require.NoError(t, err)
		return done
	}
	done := intercept(interpolate(conclavesql.StateWrite, body, 7, 3, "nonce", "dc", "META", "table", 7, 2, "meta-1@a", 7))
	require.Len(t, claims, 1, "claimed before the statement is executed")
	done(1, nil)
	intercept(interpolate(conclavesql.StateSeal, 8, 1, "nonce", "dc", "META", 8, "meta-1@a", 8))(4, nil)
	require.Nil(t, intercept(conclavesql.StateRead))
	for _, win := range []string{conclavesql.LockWinVacant, conclavesql.LockWinOwn, conclavesql.LockWinExpired, conclavesql.LockWinOverdue, conclavesql.LockWinWitness} {
		won := interpolate(win, "meta-1@a", "http://meta-1", 9, 3000, "nonce", "", 0, "dc", "META", "meta-2@a", 8, "older")
		intercept(won)(1, nil)
		last := claims[len(claims)-1]
		assert.Equal(t, []any{trace.Landed, "win", uint64(10)}, []any{last.Kind, last.Subject, last.Term}, win)
	}
	claims = claims[:4]
	want := []trace.Claim{
		{Kind: trace.Landing, Subject: "write", Key: "table", Epoch: conclave.Epoch{Term: 7, Seq: 3}},
		{Kind: trace.Landed, Subject: "write", Key: "table", Epoch: conclave.Epoch{Term: 7, Seq: 3}, Count: 1},
		{Kind: trace.Landing, Subject: "seal", Epoch: conclave.Epoch{Term: 8, Seq: 1}},
		{Kind: trace.Landed, Subject: "seal", Epoch: conclave.Epoch{Term: 8, Seq: 1}, Count: 4},
	}
	for i := range want {
		want[i].Node.Name = "127.0.0.1"
	}
	assert.Equal(t, want, claims)
}

// Each kind of statement that a scenario can have refused is recognized.
func TestRefusal_RecognizesStatements(t *testing.T) {
	write := interpolate(conclavesql.StateWrite, "s.kind = 'x'", 7, 3, "nonce", "dc", "META", "config", 7, 2, "meta-1@a", 7)
	seal := interpolate(conclavesql.StateSeal, 8, 1, "nonce", "dc", "META", 8, "meta-1@a", 8)
	renew := interpolate(conclavesql.LockRenew, "owner")
	for kind, refused := range map[string][]string{
		"statements": {write, seal, renew, conclavesql.StateRead, conclavesql.HistoryRecord},
		"writes":     {write, seal, renew, conclavesql.HistoryRecord},
		"elections":  {renew}, "decisions": {write, seal}, "config": {write}, "table": nil,
	} {
		c := &Cluster{refusals: map[string]int{kind: 1366}}
		for _, query := range []string{write, seal, renew, conclavesql.StateRead, conclavesql.HistoryRecord} {
			_, err := c.interceptStatement(nil, query)
			assert.Equal(t, slices.Contains(refused, query), err != nil, "%s: %s", kind, query)
		}
	}
}
