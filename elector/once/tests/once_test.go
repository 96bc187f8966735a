package once_test

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"conclave/elector/electortest"
	"conclave/elector/fence"
	"conclave/elector/once"
	_ "conclave/internal/bubble"
	"conclave/internal/devdb"
	"conclave/internal/mysqltest"
	conclavesql "conclave/sql"
	"conclave/testbed/simulated/simnet"
)

func TestMain(m *testing.M) { mysqltest.Main(m) }

var lock = conclavesql.Lock{DataCenter: "test", Name: "report"}

// open opens a database that is migrated, for another lock.
func open(t *testing.T, dsn string, opts conclavesql.Options) *conclavesql.DB {
	t.Helper()
	opts.Deadline = 10 * time.Second
	db, err := conclavesql.Open(dsn, opts)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, db.Migrate(t.Context(), conclavesql.DefaultLock()))
	return db
}

// one runs the job once, and returns its run.
func one(t *testing.T, job *once.Job, f func(ctx context.Context, run once.Run) error) (run once.Run) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ran := 0
	require.NoError(t, job.Run(ctx, func(inside context.Context, r once.Run) error {
		defer cancel()
		ran, run = ran+1, r
		return f(inside, r)
	}))
	require.Equal(t, 1, ran)
	return run
}

func nothing(context.Context, once.Run) error { return nil }

// last is Job.Last, without times.
func last(t *testing.T, job *once.Job) once.Last {
	t.Helper()
	l, err := (&once.Job{DB: job.DB, Lock: job.Lock}).Last(t.Context())
	require.NoError(t, err)
	return l
}

// age makes the last run older.
func age(t *testing.T, db *conclavesql.DB, by time.Duration) {
	t.Helper()
	n, err := db.Exec(t.Context(), "UPDATE distribute_lock SET gmt_modified = DATE_SUB(gmt_modified, INTERVAL ? SECOND) WHERE lock_name = ?",
		int(by/time.Second), lock.Name)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// The row has failures, deaths, periods without a run, and the time of the next one.
// A token is valid until the next run begins.
func TestRun_WhatHappenedIsVisible(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		const day = 24 * time.Hour
		db := open(t, s.DSN, conclavesql.Options{})
		var log bytes.Buffer
		job := &once.Job{DB: db, Lock: lock, Every: day, Name: "one", Logger: slog.New(slog.NewTextHandler(&log, nil))}
		assert.Zero(t, last(t, job), "it has never run")

		run := one(t, job, func(ctx context.Context, run once.Run) error {
			limit, limited := ctx.Deadline()
			assert.True(t, limited)
			assert.WithinDuration(t, time.Now().Add(day), limit, time.Minute)
			l := last(t, job)
			assert.True(t, l.Running)
			assert.False(t, l.Died)
			return nil
		})
		assert.EqualValues(t, 1, run.Number)
		assert.Zero(t, run.Missed)
		assert.False(t, run.Died)
		l := last(t, job)
		assert.True(t, strings.HasPrefix(l.By, "one@"))
		assert.Equal(t, run.Token.Owner, l.By)
		assert.False(t, l.Running || l.Died)
		assert.LessOrEqual(t, l.Age, time.Minute)
		assert.LessOrEqual(t, l.Next, day)
		assert.Empty(t, log.String())

		age(t, db, day)
		assert.Zero(t, last(t, job).Next)
		run = one(t, job, func(context.Context, once.Run) error {
			return errors.New("no paper: größer" + strings.Repeat("!", 300))
		})
		assert.Zero(t, run.Missed)
		l = last(t, job)
		assert.True(t, strings.HasPrefix(l.Failure, `no paper: gr\u00f6\u00dfer!!`), l.Failure)
		assert.Len(t, l.Failure, 255)
		assert.Contains(t, log.String(), "no paper")

		connection := func() (id int64) {
			require.NoError(t, db.QueryRow(t.Context(), "SELECT CONNECTION_ID()", nil, &id))
			return id
		}
		before := connection()
		last(t, job)
		assert.Equal(t, before, connection())
		age(t, db, 4*day) // three days are left out
		assert.EqualValues(t, 3, last(t, job).Overdue)
		assert.NotEqual(t, before, connection(), "an overdue row is read anew: the address may have moved to another server")
		died := one(t, job, func(context.Context, once.Run) error {
			// The process dies: its end is not recorded. (Another row takes it.)
			_, err := db.Exec(t.Context(), "UPDATE distribute_lock SET owner = 'one@dead' WHERE lock_name = ?", lock.Name)
			return err
		})
		assert.EqualValues(t, 3, died.Missed)
		l = last(t, job)
		assert.True(t, l.Running)
		assert.EqualValues(t, 3, l.Missed)
		assert.Empty(t, l.Failure)
		assert.Greater(t, l.Next, 23*time.Hour, "a whole period after it began")
		age(t, db, day)
		l = last(t, job)
		assert.True(t, l.Died)
		assert.Zero(t, l.Next)

		dead := fence.Token{Lock: lock, Owner: "one@dead", Term: died.Number}
		shop, err := stdsql.Open("mysql", s.DSN)
		require.NoError(t, err)
		defer shop.Close()
		require.NoError(t, dead.Check(t.Context(), shop))
		run = one(t, job, func(ctx context.Context, run once.Run) error {
			assert.ErrorIs(t, dead.Check(ctx, shop), fence.ErrTermEnded, "what it does later is refused")
			return run.Token.Check(ctx, shop)
		})
		assert.True(t, run.Died)
		assert.EqualValues(t, 4, run.Number)
		assert.EqualValues(t, 3, last(t, job).Missed, "in all")
		require.NoError(t, run.Token.Check(t.Context(), shop), "until the next run begins")
	})
}

// Processes that call Run at the same time have one run in each period, by the database's
// clock. The table's keys ensure it.
func TestRun_OneProcessInEachPeriod(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		shop, err := stdsql.Open("mysql", s.DSN)
		require.NoError(t, err)
		defer shop.Close()
		_, err = shop.Exec("CREATE TABLE runs (period bigint PRIMARY KEY, run bigint unsigned NOT NULL UNIQUE)")
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var processes sync.WaitGroup
		for range 5 {
			job := once.Job{DB: open(t, s.DSN, conclavesql.Options{}), Lock: lock, Every: time.Second, Name: "one"}
			processes.Go(func() {
				assert.NoError(t, job.Run(ctx, func(_ context.Context, run once.Run) error {
					n, err := fence.Exec(context.Background(), shop, run.Token,
						"INSERT INTO runs (period, run) SELECT FLOOR(TIMESTAMPDIFF(MICROSECOND, '1990-01-01', gmt_modified) / 1000000), fence.term FROM {fence} JOIN distribute_lock ON lock_name = ?", lock.Name)
					assert.NoError(t, err)
					assert.EqualValues(t, 1, n)
					return err
				}))
			})
		}
		processes.Wait()
		var runs, highest int
		require.NoError(t, shop.QueryRow("SELECT COUNT(*), MAX(run) FROM runs").Scan(&runs, &highest))
		assert.Equal(t, runs, highest)
		assert.GreaterOrEqual(t, runs, 4)
	})
}

// The end of a run is recorded when the database is back, while the next run is not due, and
// once the context has ended, for some seconds.
func TestRun_EndWithoutADatabase(t *testing.T) {
	for _, c := range []struct{ away, lives time.Duration }{{10 * time.Minute, time.Hour}, {3 * time.Second, 0}, {10 * time.Minute, 0}} {
		bubble(t, func(t *testing.T, open func() *conclavesql.DB, cable *electortest.Cable) {
			var log bytes.Buffer
			job := &once.Job{DB: open(), Lock: lock, Every: 24 * time.Hour, Name: "one", Logger: slog.New(slog.NewTextHandler(&log, nil))}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var ended time.Time
			require.NoError(t, job.Run(ctx, func(context.Context, once.Run) error {
				cable.Cut()
				time.AfterFunc(c.away, cable.Mend)
				ended = time.Now()
				if time.AfterFunc(c.lives, stop); c.lives == 0 {
					<-ctx.Done()
				}
				return nil
			}))
			recorded := c.lives > c.away || c.away < 5*time.Second
			assert.LessOrEqual(t, time.Since(ended), c.lives+5*time.Second, "Run ends with its context")
			time.Sleep(c.away)
			assert.Equal(t, recorded, !last(t, job).Running, c)
			assert.Equal(t, recorded, !strings.Contains(log.String(), "will count as dead"), c)
			assert.Equal(t, c.lives > c.away, strings.Contains(log.String(), "not recorded yet"), c)
			assert.LessOrEqual(t, strings.Count(log.String(), "\n"), 11, "a WARN in each minute")
		})
	}
}

// bubble runs a test in virtual time, with an embedded server behind a cable.
func bubble(t *testing.T, test func(t *testing.T, open func() *conclavesql.DB, cable *electortest.Cable)) {
	synctest.Test(t, func(t *testing.T) {
		network := simnet.New(1)
		listener, err := network.Host("db").Listen(t.Context(), "tcp", "db:3306")
		require.NoError(t, err)
		dsn := mysqltest.ServeEmbedded(t, devdb.Config{Listener: listener})
		cable := electortest.NewCable(network.Host("clients").DialContext)
		test(t, func() *conclavesql.DB { return open(t, dsn, conclavesql.Options{Dial: cable.Dial}) }, cable)
	})
}

// In a week, in which processes come and go, each hour has one run, at its beginning. A
// process sends one statement for each hour, and the one that runs three more, with the
// looks that were early because of the times at which they happen.
func TestRun_AWeekOfHours(t *testing.T) {
	bubble(t, func(t *testing.T, open func() *conclavesql.DB, _ *electortest.Cable) {
		const processes, hours = 5, 7 * 24
		var mu sync.Mutex
		ran := map[time.Time]int{} // by hour
		late := time.Duration(0)
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		ctx, stop := context.WithTimeout(t.Context(), hours*time.Hour)
		defer stop()
		var all sync.WaitGroup
		var statements atomic.Uint64
		for i := range processes {
			db := open()
			before := db.Statements()
			all.Go(func() {
				for life := 1; ctx.Err() == nil; life++ {
					living, end := context.WithTimeout(ctx, time.Duration(i+1)*11*time.Hour)
					job := once.Job{DB: db, Lock: lock, Every: time.Hour, Name: fmt.Sprintf("p%d", i)}
					assert.NoError(t, job.Run(living, func(ctx context.Context, run once.Run) error {
						hour := time.Now().Truncate(time.Hour)
						mu.Lock()
						ran[hour]++
						late = max(late, time.Since(hour))
						mu.Unlock()
						assert.Zero(t, run.Missed)
						assert.False(t, run.Died)
						time.Sleep(10 * time.Minute)
						return nil
					}))
					end()
				}
				statements.Add(db.Statements() - before)
			})
		}
		all.Wait()
		assert.Len(t, ran, hours)
		for hour, n := range ran {
			assert.Equal(t, 1, n, hour)
		}
		assert.LessOrEqual(t, late, 2*spread)
		each := float64(statements.Load()) / hours
		t.Logf("%.2f statements in each hour", each)
		assert.LessOrEqual(t, each, processes+4.0)
	})
}

// spread is within what time after a period began all processes have looked.
const spread = 100 * time.Millisecond

// A run that does not end is cancelled after a period, and the next one does not begin
// before.
func TestRun_LongRunsDoNotOverlap(t *testing.T) {
	bubble(t, func(t *testing.T, open func() *conclavesql.DB, _ *electortest.Cable) {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Hour+time.Minute)
		defer stop()
		var running, runs atomic.Int32
		var all sync.WaitGroup
		for range 3 {
			job := once.Job{DB: open(), Lock: lock, Every: time.Hour, Name: "p"}
			all.Go(func() {
				assert.NoError(t, job.Run(ctx, func(ctx context.Context, run once.Run) error {
					assert.EqualValues(t, 1, running.Add(1))
					runs.Add(1)
					<-ctx.Done()
					running.Add(-1)
					return ctx.Err()
				}))
			})
		}
		all.Wait()
		assert.GreaterOrEqual(t, runs.Load(), int32(9))
	})
}

// delayed is a connection on which the beginning of a run is sent late.
type delayed struct {
	net.Conn
	by time.Duration
}

func (c delayed) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("term = term + 1")) {
		time.Sleep(c.by)
	}
	return c.Conn.Write(b)
}

// Of processes that have all found a run due one begins it, and none if its period has
// ended meanwhile.
func TestRun_BeginsAsReadOrNotAtAll(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		for _, c := range []struct {
			every, late time.Duration
			runs        int32
		}{{90 * 24 * time.Hour, time.Second, 1}, {time.Second, 1100 * time.Millisecond, 0}} {
			var runs atomic.Int32
			var processes sync.WaitGroup
			ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
			for range 5 {
				db := open(t, s.DSN, conclavesql.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
					return delayed{conn, c.late}, err
				}})
				job := once.Job{DB: db, Lock: conclavesql.Lock{DataCenter: "test", Name: c.every.String()}, Every: c.every, Name: "one"}
				processes.Go(func() {
					assert.NoError(t, job.Run(ctx, func(context.Context, once.Run) error { runs.Add(1); return nil }))
				})
			}
			processes.Wait()
			stop()
			assert.Equal(t, c.runs, runs.Load(), c.every)
		}
	})
}

// loseAnswer is a connection that breaks when the answer to the first beginning of a run
// arrives.
type loseAnswer struct {
	net.Conn
	lost   *atomic.Bool
	losing bool
}

func (c *loseAnswer) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("term = term + 1")) && c.lost.CompareAndSwap(false, true) {
		c.losing = true
	}
	return c.Conn.Write(b)
}

func (c *loseAnswer) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.losing {
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// A run whose beginning was executed without an answer is run once, by that process.
func TestRun_LostAnswerOfItsBeginning(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		var lost atomic.Bool
		db := open(t, s.DSN, conclavesql.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &loseAnswer{Conn: conn, lost: &lost}, err
		}})
		job := &once.Job{DB: db, Lock: lock, Every: 2 * time.Second, Name: "one"}
		began := time.Now()
		run := one(t, job, func(ctx context.Context, _ once.Run) error {
			limit, _ := ctx.Deadline()
			assert.LessOrEqual(t, time.Until(limit), 2*time.Second)
			return nil
		})
		assert.True(t, lost.Load())
		if time.Since(began) < 2*time.Second { // otherwise the run has died
			assert.EqualValues(t, 1, run.Number)
		}
	})
}

// After the clock was set back no second run begins, Last has the time of the next one, and
// a WARN says what to do.
func TestRun_ClockSetBack(t *testing.T) {
	mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
		db := open(t, s.DSN, conclavesql.Options{})
		job := &once.Job{DB: db, Lock: lock, Every: time.Second, Name: "one"}
		one(t, job, nothing)
		age(t, db, -time.Hour)
		var log bytes.Buffer
		job.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		require.NoError(t, job.Run(ctx, func(context.Context, once.Run) error { return errors.New("it ran") }))
		l := last(t, job)
		assert.EqualValues(t, 1, l.Number)
		assert.Greater(t, l.Next, 59*time.Minute)
		assert.Equal(t, 1, strings.Count(log.String(), "clock was set back"), "said once in a minute: %s", &log)
		assert.Contains(t, log.String(), "NTP")
		assert.Zero(t, l.Overdue)
		age(t, db, time.Hour+2*time.Second)
		assert.EqualValues(t, 2, one(t, job, nothing).Number)
	})
}

// The privileges that doc.go names are enough.
func TestRun_Privileges(t *testing.T) {
	mysqltest.Real(t, func(t *testing.T, s *mysqltest.Server) {
		db := open(t, s.DSN, conclavesql.Options{})
		config, err := mysql.ParseDSN(s.DSN)
		require.NoError(t, err)
		as := func(name, privileges string) *once.Job {
			name = fmt.Sprintf("%s_%d", name, os.Getpid())
			s.Exec(t, "CREATE USER '"+name+"'@'%' IDENTIFIED BY 'secret'")
			t.Cleanup(func() { s.Exec(t, "DROP USER '"+name+"'@'%'") })
			s.Exec(t, "GRANT "+privileges+" ON "+config.DBName+".distribute_lock TO '"+name+"'@'%'")
			mine := config.Clone()
			mine.User, mine.Passwd = name, "secret"
			limited, err := conclavesql.Open(mine.FormatDSN(), conclavesql.Options{Deadline: 10 * time.Second})
			require.NoError(t, err)
			t.Cleanup(func() { limited.Close() })
			return &once.Job{DB: limited, Lock: lock, Every: time.Hour, Name: "one"}
		}
		runner, reader := as("runner", "SELECT, INSERT, UPDATE"), as("reader", "SELECT")
		assert.EqualValues(t, 1, one(t, runner, nothing).Number)
		assert.EqualValues(t, 1, last(t, reader).Number)
		age(t, db, time.Hour)
		assert.ErrorIs(t, reader.Run(t.Context(), nothing), conclavesql.ErrStatement, "the update is denied")
	})
}

// An invalid job, and a database without tables or privileges, are reported at once.
func TestRun_ReportsWhatCannotWork(t *testing.T) {
	s := mysqltest.NewEmbedded(t)
	empty, err := conclavesql.Open(s.DSN, conclavesql.Options{Deadline: 10 * time.Second})
	require.NoError(t, err)
	defer empty.Close()
	for want, job := range map[string]once.Job{
		"invalid Every 500ms": {DB: empty, Lock: lock, Every: 500 * time.Millisecond},
		"whole milliseconds":  {DB: empty, Lock: lock, Every: time.Second + 1},
		"node name \"a b\"":   {DB: empty, Lock: lock, Every: time.Second, Name: "a b"},
		"lock name":           {DB: empty, Lock: conclavesql.Lock{DataCenter: "test"}, Every: time.Second},
		"distribute_lock":     {DB: empty, Lock: lock, Every: time.Second, Name: "one"},
	} {
		assert.ErrorContains(t, job.Run(t.Context(), nothing), want)
	}
}
