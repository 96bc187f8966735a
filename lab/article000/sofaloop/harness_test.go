package sofaloop_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/electortest/sqlworld"
	"conclave/internal/mysqltest"
	"conclave/lab/article000/sofaloop"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

var key = conclavesql.Lock{DataCenter: "test", Name: "META-MASTER"}

// world is a database with the article's table, and no row.
type world struct{ *sqlworld.World }

func newWorld(t *testing.T, w *sqlworld.World) *world {
	require.NoError(t, sofaloop.Migrate(t.Context(), w.DB, key))
	return &world{w}
}

// inBubble runs a test on the embedded server, in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	sqlworld.InBubble(t, func(t *testing.T, w *sqlworld.World) { test(t, newWorld(t, w)) })
}

// everywhere runs a test in a bubble, and on the real servers in real time.
func everywhere(t *testing.T, test func(t *testing.T, w *world)) {
	t.Run(string(mysqltest.Embedded), func(t *testing.T) { inBubble(t, test) })
	mysqltest.AtOnce(t, func(t *testing.T, s *mysqltest.Server) { test(t, newWorld(t, sqlworld.New(t, s))) })
}

// node is a node of the election.
type node struct {
	*sofaloop.Loop
	name  string
	db    *conclavesql.DB    // its own
	cable *electortest.Cable // its path to the database
	kill  func()             // of a node that was started
}

// loop makes a node that plays no rounds by itself. Its calls to SQL may hang
// for an hour.
func (w *world) loop(t *testing.T, name string, set ...func(*sofaloop.Config)) *node {
	t.Helper()
	cable := electortest.NewCable(w.Dial)
	db := w.Open(t, cable.Dial, time.Hour)
	cfg := sofaloop.Config{DB: db, Lock: key, Myself: name}
	for _, s := range set {
		s(&cfg)
	}
	l, err := sofaloop.New(cfg)
	require.NoError(t, err)
	return &node{Loop: l, name: name, db: db, cable: cable}
}

// start starts a node, and returns after its first round.
func (w *world) start(t *testing.T, name string, set ...func(*sofaloop.Config)) *node {
	t.Helper()
	n := w.loop(t, name, set...)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	n.kill = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.kill)
	time.Sleep(50 * time.Millisecond)
	return n
}

// ahead sets a node's wall clock ahead of the database's; behind it, if d is
// negative.
func ahead(d time.Duration) func(*sofaloop.Config) {
	return func(cfg *sofaloop.Config) { cfg.Now = func() time.Time { return time.Now().Add(d) } }
}

// elect plays a round of each node.
func elect(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		require.NoError(t, n.Elect(t.Context()))
	}
}

// row is the row in the table.
type row struct {
	owner      string
	term, beat uint64
}

func (w *world) row(t *testing.T) (r row) {
	t.Helper()
	const query = "SELECT owner, term, term_duration FROM distribute_lock WHERE data_center = ? AND lock_name = ?"
	require.NoError(t, w.DB.QueryRow(t.Context(), query, []any{key.DataCenter, key.Name}, &r.owner, &r.term, &r.beat))
	return r
}

// age sets the time of the last renewal to d ago, by the database's clock.
func (w *world) age(t *testing.T, d time.Duration) {
	t.Helper()
	_, err := w.DB.Exec(t.Context(), "UPDATE distribute_lock SET gmt_modified = DATE_SUB(UTC_TIMESTAMP(3), INTERVAL ? MICROSECOND) WHERE lock_name = ?", d.Microseconds(), key.Name)
	require.NoError(t, err)
}

// leaders returns the names of the nodes that believe they lead.
func leaders(nodes ...*node) (list []string) {
	for _, n := range nodes {
		if n.AmILeader() {
			list = append(list, n.name)
		}
	}
	return list
}
