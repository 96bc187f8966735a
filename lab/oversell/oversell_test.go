package oversell_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	"conclave/lab/article004/zklatch/memtree"
	"conclave/lab/oversell"
	conclavesql "conclave/sql"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

// embedded starts a server whose lock waits are long enough for all buyers on a
// busy machine.
func embedded(t *testing.T) (dsn string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener, LockWait: time.Minute})
}

// small returns a shop of 30 buyers, 5 items and one way.
func small(dsn, way string) oversell.Config {
	cfg := oversell.DefaultConfig()
	cfg.DSN, cfg.Buyers, cfg.Items, cfg.Workers, cfg.Think, cfg.Only = dsn, 30, 5, 3, time.Millisecond, []string{way}
	return cfg
}

// runOne runs one way.
func runOne(t *testing.T, cfg oversell.Config) oversell.Row {
	t.Helper()
	report, err := oversell.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Len(t, report.Ways, 1)
	row := report.Ways[0]
	t.Logf("%s: sold %d, orders %d, left %d, oversold %d, lost %d, refused %d", row.Name, row.Sold, row.Orders, row.Left, row.Oversold, row.Lost, row.Refused)
	assert.Equal(t, row.Sold, row.Orders, "each buyer whose purchase succeeded has an order")
	assert.True(t, row.Ok, row.Verdict)
	return row
}

// Article 004: without a lock every buyer succeeds and the stock hardly moves.
// All buyers read before one writes.
func TestArticleWithoutALockEveryBuyerSucceeds(t *testing.T) {
	cfg := small(embedded(t), "no-lock")
	gate, open := context.WithCancel(t.Context())
	defer open()
	var left atomic.Int64
	left.Store(int64(cfg.Buyers))
	cfg.AfterRead = func(ctx context.Context, _ string, _ int) {
		if left.Add(-1) == 0 {
			open()
		}
		select {
		case <-gate.Done():
		case <-ctx.Done(): // another buyer has failed
		}
	}
	row := runOne(t, cfg)
	assert.Equal(t, 30, row.Orders, "every buyer has an order")
	assert.Equal(t, 4, row.Left, "the stock has moved by one")
	assert.Equal(t, 25, row.Oversold)
	assert.Equal(t, 29, row.Lost)
	assert.Equal(t, "oversold, as expected", row.Verdict)
}

// The known fault of article 001's lock: two threads of one process read before
// one of them writes.
func TestArticleFaultThreadsOfAProcessSellTheSameItem(t *testing.T) {
	cfg := small(embedded(t), "rowlock-article-threads")
	both := make(chan struct{})
	var mu sync.Mutex
	inside := map[int]int{} // threads of each process that have read
	cfg.AfterRead = func(ctx context.Context, _ string, buyer int) {
		mu.Lock()
		inside[buyer%cfg.Workers]++
		if inside[buyer%cfg.Workers] == 2 {
			select {
			case <-both:
			default:
				close(both)
			}
		}
		mu.Unlock()
		select {
		case <-both:
		case <-ctx.Done():
		}
	}
	row := runOne(t, cfg)
	assert.Positive(t, row.Lost, "two wrote the same stock")
}

// Article 004: with a lock nothing is oversold; nor with the condition in the
// statement.
func TestArticleWithALockNothingIsOversold(t *testing.T) {
	for _, way := range []string{"row-condition", "rowlock-article", "rowlock", "zk-single", "zk-mutex", "zk-semaphore"} {
		t.Run(way, func(t *testing.T) {
			row := runOne(t, small(embedded(t), way))
			assert.Equal(t, "held", row.Verdict)
			assert.Equal(t, 0, row.Oversold)
			assert.Equal(t, 0, row.Lost)
			assert.Equal(t, 5, row.Orders, "all are sold")
			assert.Equal(t, 0, row.Left)
		})
	}
}

// Article 004: one unique node wakes all waiters at each release; of
// sequential nodes each waiter watches only the one before it. A buyer
// that has the lock releases it when all remaining buyers wait for it.
func TestArticleOneWaiterIsWokenAndNotTheHerd(t *testing.T) {
	const waiters = 29
	for way, want := range map[string]uint64{"zk-single": waiters * (waiters + 1) / 2, "zk-mutex": waiters, "zk-semaphore": waiters} {
		t.Run(way, func(t *testing.T) {
			cfg := small(embedded(t), way)
			cfg.Workers = cfg.Buyers // the server counts one watch of a session
			tree, address, stop, err := memtree.Start()
			require.NoError(t, err)
			defer stop()
			cfg.ZooKeeper = address
			left := waiters
			cfg.AfterRead = func(ctx context.Context, _ string, _ int) { // one at a time, because they hold the lock
				for tree.Watches() != left && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				left--
			}
			row := runOne(t, cfg)
			require.NotNil(t, row.WakeUps)
			assert.Equal(t, want, *row.WakeUps)
			assert.Greater(t, *row.Requests, 30*uint64(2), "each buyer at least acquires and releases")
		})
	}
}

// A holder is frozen between its check and its write until its lock is lost and
// others have bought. Without a fence it then writes what it read.
func TestAFrozenHolderWakesUpAndWrites(t *testing.T) {
	row := runOne(t, small(embedded(t), "rowlock-paused"))
	assert.Equal(t, "oversold, as arranged", row.Verdict)
	assert.Equal(t, 2, row.Oversold, "two were sold, then the stock was set back to four")
	assert.Equal(t, 7, row.Orders)
	assert.Equal(t, 0, row.Left)
	assert.Equal(t, 0, row.Refused)
}

func TestPausedHolder_WriteIsRefusedByToken(t *testing.T) {
	row := runOne(t, small(embedded(t), "rowlock-paused-token"))
	assert.Equal(t, "held", row.Verdict)
	assert.Equal(t, 1, row.Refused, "the late write")
	assert.Equal(t, 5, row.Orders, "all are sold to others")
	assert.Equal(t, 0, row.Left)
}

// After a run its rows are deleted from the shop's tables.
func TestARunLeavesNoRowsBehind(t *testing.T) {
	server := mysqltest.NewEmbedded(t)
	runOne(t, small(server.DSN, "no-lock"))
	db, err := conclavesql.Open(server.DSN, conclavesql.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	defer db.Close()
	for _, table := range []string{"lab_goods_stock", "lab_goods_order"} {
		var rows int
		require.NoError(t, db.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table, nil, &rows))
		assert.Zero(t, rows, table)
	}
}

func TestReport_JSONAndHTML(t *testing.T) {
	cfg := small(embedded(t), "")
	cfg.Only, cfg.Database = []string{"row-condition", "zk-mutex"}, "embedded"
	var progress bytes.Buffer
	cfg.Progress = &progress
	report, err := oversell.Run(t.Context(), cfg)
	require.NoError(t, err)
	assert.Empty(t, report.Broken())
	assert.Equal(t, 2, strings.Count(progress.String(), "5 orders of 5"))

	body, err := json.Marshal(report)
	require.NoError(t, err)
	var again oversell.Report
	require.NoError(t, json.Unmarshal(body, &again))
	same, err := json.Marshal(again)
	require.NoError(t, err)
	assert.JSONEq(t, string(body), string(same))

	var page bytes.Buffer
	require.NoError(t, report.WriteHTML(&page))
	for _, text := range []string{"<b>row-condition</b>", "<b>zk-mutex</b>", "30 buyers and 5 items"} {
		assert.Contains(t, page.String(), text)
	}
	for _, outside := range []string{"http:", "https:", "src=", "@import"} {
		assert.NotContains(t, page.String(), outside, "no external resources")
	}
}

func TestRun_RefusesInvalidConfig(t *testing.T) {
	for want, change := range map[string]func(*oversell.Config){
		"DSN":     func(c *oversell.Config) { c.DSN = "" },
		"buyers":  func(c *oversell.Config) { c.Buyers = 0 },
		"more":    func(c *oversell.Config) { c.Buyers = c.Items },
		"items":   func(c *oversell.Config) { c.Items = 0 },
		"workers": func(c *oversell.Config) { c.Workers = 1 },
		"think":   func(c *oversell.Config) { c.Think = -1 },
		"magic":   func(c *oversell.Config) { c.Only = []string{"magic"} },
	} {
		cfg := small("root@tcp(127.0.0.1:1)/nowhere", "no-lock")
		change(&cfg)
		_, err := oversell.Run(t.Context(), cfg)
		assert.ErrorIs(t, err, oversell.ErrConfig)
		assert.ErrorContains(t, err, want)
	}
	report, err := oversell.Run(t.Context(), small("root:secret@tcp(127.0.0.1:1)/nowhere", "no-lock"))
	require.ErrorContains(t, err, "no-lock", "the database cannot be reached")
	assert.NotContains(t, err.Error(), "secret")
	assert.Empty(t, report.Ways)
}

// All ways run on real servers.
func TestOnRealServers(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		cfg := small(s.DSN, "")
		cfg.Only = nil
		report, err := oversell.Run(t.Context(), cfg)
		require.NoError(t, err)
		assert.Len(t, report.Ways, len(oversell.Ways()))
		assert.Empty(t, report.Broken())
	})
}
