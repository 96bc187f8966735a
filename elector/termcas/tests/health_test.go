package termcas_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave"
	"conclave/elector"
	"conclave/elector/electortest"
	"conclave/elector/termcas"
	conclavesql "conclave/sql"
)

// logs collects what nodes log.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines of this level have the text.
func (l *logs) count(level slog.Level, text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "level="+level.String()) && strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// alone runs one node of the bench with everything that it logs.
func (b *bench) alone(t *testing.T, takeover termcas.Takeover) (e *elector.Elector, log *logs) {
	log = &logs{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	cable := electortest.NewCable(b.Dial)
	db, err := conclavesql.Open(b.dsn, conclavesql.Options{Dial: cable.Dial})
	require.NoError(t, err)
	strategy, err := termcas.New(termcas.Config{DB: db, Lock: b.lock, Takeover: takeover, Logger: logger})
	require.NoError(t, err)
	e, err = elector.New(elector.Config{ID: conclave.NodeID{Name: "alone"}, Strategy: strategy, Lease: 3 * time.Second, Logger: logger})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		db.Close()
	})
	return e, log
}

// What an operator has to mend is said in the log, with the way to do it, again and
// again but not each beat, and without a logger in Status.
func TestRound_ErrorSaysWhatToDo(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		e, log := b.alone(t, termcas.Witness)
		time.Sleep(5 * time.Second)
		require.Equal(t, elector.Leading, e.Status().State)
		for _, table := range []string{"distribute_lock", "election_history"} {
			_, err := b.db.Exec(t.Context(), "DROP TABLE "+table)
			require.NoError(t, err)
		}
		time.Sleep(10 * time.Second)
		assert.ErrorContains(t, e.Status().Err, "Migrate")
		assert.NotEqual(t, elector.Leading, e.Status().State)
		time.Sleep(5 * time.Minute)
		said := log.count(slog.LevelWarn, "Migrate")
		assert.Greater(t, said, 5)
		assert.Less(t, said, 50)
		require.NoError(t, b.db.Migrate(t.Context(), b.lock))
		time.Sleep(10 * time.Second)
		assert.EqualValues(t, 2, e.Status().Term.Number, "terms rise")
		assert.Equal(t, elector.Leading, e.Status().State)
		assert.NoError(t, e.Status().Err)
	})
}

// What refuses a win, and no read, is shown as well, as on a read-only server.
func TestWin_RefusalIsShown(t *testing.T) {
	bubble(t, termcas.Witness, func(t *testing.T, b *bench) {
		require.NoError(t, b.db.Create(t.Context(), "ALTER TABLE distribute_lock MODIFY owner varchar(3) NOT NULL"))
		e, log := b.alone(t, termcas.Witness)
		time.Sleep(time.Minute)
		assert.ErrorContains(t, e.Status().Err, "too large for column")
		assert.Equal(t, elector.Following, e.Status().State)
		assert.Equal(t, 2, log.count(slog.LevelWarn, "win term 1"), "once in ten leases")
	})
}

func TestDatabaseClock_StepIsLogged(t *testing.T) {
	for change, text := range map[string]string{"DATE_SUB": "set forward", "DATE_ADD": "set back"} {
		bubble(t, termcas.Lease, func(t *testing.T, b *bench) {
			c := electortest.NewCluster(t, b.World, 1)
			defer c.Stop()
			leader, _ := c.Leader()
			_, log := b.alone(t, termcas.Lease)
			time.Sleep(20 * time.Second)
			assert.Zero(t, log.count(slog.LevelWarn, "clock"))
			leader.Cable.Cut() // before the beat that the next statement stands for
			b.exec(t, "UPDATE distribute_lock SET term_duration = term_duration + 1, gmt_modified = "+change+"(UTC_TIMESTAMP(3), INTERVAL 1 HOUR) WHERE data_center = ? AND lock_name = ?")
			time.Sleep(3 * time.Second)
			assert.Equal(t, 1, log.count(slog.LevelWarn, text))
		})
	}
}
