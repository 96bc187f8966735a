package termcas_test

import (
	stdsql "database/sql"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/termcas"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
)

var sqlBlock = regexp.MustCompile("(?ms)^```sql\n(.*?);\n^```$")

// The statements of docs/elections.md, as a reader pastes them, show who led when and
// who leads now.
func TestElectionsPage_StatementsShowTheTerms(t *testing.T) {
	page, err := os.ReadFile("../../../docs/elections.md")
	require.NoError(t, err)
	blocks := sqlBlock.FindAllSubmatch(page, -1)
	require.Len(t, blocks, 3)
	job, blocks := string(blocks[0][1]), blocks[1:]
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db, err := conclavesql.Open(s.DSN, conclavesql.Options{})
		require.NoError(t, err)
		defer db.Close()
		lock := conclavesql.Lock{DataCenter: "shop", Name: "nightly"}
		require.NoError(t, db.Migrate(t.Context(), lock))
		for _, name := range []string{"one", "two"} {
			strategy, err := termcas.New(termcas.Config{DB: db, Lock: lock})
			require.NoError(t, err)
			defer strategy.Close()
			me := elector.Candidate{ID: conclave.NodeID{Name: name, Incarnation: "1"}, Lease: candidateLease, Beat: candidateLease / 3}
			term, err := strategy.Round(t.Context(), me, elector.Term{})
			require.NoError(t, err)
			_, err = strategy.Record(t.Context(), term)
			require.NoError(t, err)
			if name == "one" {
				require.NoError(t, strategy.Resign(t.Context(), term))
			}
		}
		pool, err := stdsql.Open("mysql", s.DSN)
		require.NoError(t, err)
		defer pool.Close()
		require.NoError(t, db.Migrate(t.Context(), conclavesql.Lock{DataCenter: "shop", Name: "report"}))
		var run, by, at, missed, failure string
		var since stdsql.NullFloat64 // periods
		var died bool
		show := func() { require.NoError(t, pool.QueryRow(job).Scan(&run, &by, &at, &missed, &failure, &since, &died)) }
		show()
		assert.Equal(t, "0", run, "the job has not run yet")
		assert.False(t, died)
		_, err = pool.Exec("UPDATE distribute_lock SET owner = 'one@1', term = 1, duration = 3600000, gmt_modified = UTC_TIMESTAMP() - INTERVAL 3 HOUR WHERE lock_name = 'report'")
		require.NoError(t, err)
		show()
		assert.True(t, died)
		assert.Equal(t, 2.0, since.Float64)
		var terms []string
		rows, err := pool.Query(string(blocks[0][1]))
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var term, owner, began string
			var ended, why, leaderless stdsql.NullString
			require.NoError(t, rows.Scan(&term, &owner, &began, &ended, &why, &leaderless))
			terms = append(terms, term+" "+owner+" "+why.String)
			assert.Equal(t, why.Valid, ended.Valid && leaderless.Valid)
		}
		assert.Equal(t, []string{"2 two@1 ", "1 one@1 resigned"}, terms)

		var term, owner, address, resigned, lease string
		var beat float64
		require.NoError(t, pool.QueryRow(string(blocks[1][1])).Scan(&term, &owner, &address, &resigned, &lease, &beat))
		assert.Equal(t, "2 two@1 0", term+" "+owner+" "+resigned)
		assert.GreaterOrEqual(t, beat, 0.0)
	})
}
