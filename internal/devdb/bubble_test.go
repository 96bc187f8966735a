package devdb_test

import (
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/internal/devdb"
)

// bubble runs body with a server in a synctest bubble, over a network in
// memory. When it returns, all goroutines have ended.
func bubble(t *testing.T, cfg devdb.Config, body func(t *testing.T, s *devdb.Server, db *sql.DB)) {
	synctest.Test(t, func(t *testing.T) {
		network := newPipes()
		cfg.Listener = network
		s, crash := serve(t, cfg)
		db := openOver(t, s, network.dial)
		counterTable(t, db)
		body(t, s, db)
		db.Close()
		crash()
	})
}

func TestBubble_AnHourOfBeats(t *testing.T) {
	bubble(t, devdb.Config{}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		run(t, db, lockTable)
		run(t, db, lockRow)
		began := one[time.Time](t, db, "SELECT NOW(6)")
		assert.Equal(t, time.Now().UTC(), began, "the database uses the bubble's clock")
		for beat := range 3600 {
			time.Sleep(time.Second)
			require.EqualValues(t, 1, run(t, db, "UPDATE distribute_lock SET beat = beat + 1, gmt_modified = NOW(3) WHERE beat = ?", beat))
		}
		assert.Equal(t, began.Add(time.Hour), one[time.Time](t, db, "SELECT gmt_modified FROM distribute_lock"))
	})
}

func TestBubble_LockIsGrantedInTheInstantOfItsRelease(t *testing.T) {
	bubble(t, devdb.Config{}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		holder, _ := connect(t, db)
		waiter, _ := connect(t, db)
		require.Equal(t, 1, one[int](t, holder, "SELECT GET_LOCK('l', 0)"))
		at := time.Now()
		got := waitFor(t, waiter, "l")
		time.AfterFunc(1234567*time.Microsecond, func() { hangUp(t, holder) })
		require.NoError(t, <-got)
		assert.Equal(t, 1234567*time.Microsecond, time.Since(at))
		waiter.Close()
	})
}

func TestBubble_WaitsTimeOutExactly(t *testing.T) {
	bubble(t, devdb.Config{}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		holder, _ := connect(t, db)
		require.Equal(t, 1, one[int](t, holder, "SELECT GET_LOCK('l', 0)"))
		at := time.Now()
		assert.Equal(t, 0, one[int](t, db, "SELECT GET_LOCK('l', 5)"))
		assert.Equal(t, 5*time.Second, time.Since(at))
		at = time.Now()
		run(t, db, "SELECT SLEEP(2.5)")
		assert.Equal(t, 2500*time.Millisecond, time.Since(at))
		holder.Close()
	})
}

func TestBubble_IdleTransaction(t *testing.T) {
	bubble(t, devdb.Config{LockWait: 3 * time.Second}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		// 1. While no statement waits it may be idle for any time.
		tx, err := db.Begin()
		require.NoError(t, err)
		run(t, tx, "UPDATE counter SET n = 5")
		time.Sleep(time.Hour)
		require.NoError(t, tx.Commit())
		// 2. While a statement waits it is ended half of LockWait after its
		// last statement.
		tx, err = db.Begin()
		require.NoError(t, err)
		run(t, tx, "UPDATE counter SET n = 6")
		time.Sleep(time.Second)
		at := time.Now()
		run(t, db, "UPDATE counter SET n = n + 10")
		assert.Equal(t, 500*time.Millisecond, time.Since(at))
		assert.Error(t, tx.Commit())
		// 3. It has been idle for too long when the first statement begins to
		// wait.
		tx, err = db.Begin()
		require.NoError(t, err)
		run(t, tx, "UPDATE counter SET n = 7")
		time.Sleep(time.Minute)
		at = time.Now()
		assert.Equal(t, 15, one[int](t, db, "SELECT n FROM counter"))
		assert.Zero(t, time.Since(at))
		assert.Error(t, tx.Commit())
	})
}

func TestBubble_WaitForTheGateEndsAfterLockWait(t *testing.T) {
	bubble(t, devdb.Config{LockWait: 3 * time.Second}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		holder, _ := connect(t, db)
		require.Equal(t, 1, one[int](t, holder, "SELECT GET_LOCK('l', 0)"))
		busy, _ := connect(t, db)
		run(t, busy, "BEGIN")
		ended := make(chan error, 1)
		go func() {
			_, err := busy.ExecContext(t.Context(), "SELECT GET_LOCK('l', 60)") // in a transaction it waits with the gate held
			ended <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		at := time.Now()
		_, err := db.Exec("UPDATE counter SET n = 1")
		assert.EqualValues(t, 1205, number(err))
		assert.Equal(t, 3*time.Second, time.Since(at))
		assert.EqualValues(t, 1205, number(<-ended), "its own wait is limited to LockWait")
		busy.Close()
		holder.Close()
	})
}

func TestTables_SurviveACrashOfTheServer(t *testing.T) {
	tables := devdb.NewTables()
	synctest.Test(t, func(t *testing.T) {
		for life := range 3 {
			network := newPipes()
			s, crash := serve(t, devdb.Config{Listener: network, Tables: tables})
			db := openOver(t, s, network.dial)
			if life == 0 {
				counterTable(t, db)
			}
			assert.Equal(t, life, one[int](t, db, "SELECT n FROM counter"), "acknowledged rows survive the crash")
			run(t, db, "UPDATE counter SET n = n + 1")
			idle, _ := connect(t, db)
			run(t, idle, "BEGIN")
			run(t, idle, "UPDATE counter SET n = 100")
			crash()
			idle.Close()
			db.Close()
		}
	})
}

func TestNow_ClockCanBeSet(t *testing.T) {
	var step time.Duration
	bubble(t, devdb.Config{Now: func() time.Time { return time.Now().Add(step) }}, func(t *testing.T, s *devdb.Server, db *sql.DB) {
		run(t, db, "CREATE TABLE stamps (id int primary key, at timestamp(3))")
		run(t, db, "INSERT INTO stamps VALUES (1, NOW(3))")
		step = -time.Hour
		assert.Equal(t, time.Now().Add(step).UTC(), one[time.Time](t, db, "SELECT NOW(6)"))
		assert.Equal(t, -int(time.Hour.Microseconds()), one[int](t, db, "SELECT TIMESTAMPDIFF(MICROSECOND, at, NOW(3)) FROM stamps"))
		step = 10 * time.Second
		run(t, db, "UPDATE stamps SET at = NOW(3)")
		assert.Equal(t, time.Now().Add(step).UTC().Truncate(time.Millisecond), one[time.Time](t, db, "SELECT at FROM stamps"))
	})
}
