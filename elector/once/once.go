package once

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"conclave"
	"conclave/elector/fence"
	"conclave/internal/random"
	reasons "conclave/internal/reason"
	conclavesql "conclave/sql"
)

// Job is a function that is run once in each period, by one of the processes that call
// Run. All of them have the same Lock and Every.
type Job struct {
	DB   *conclavesql.DB  // migrated, for any lock: DB.Migrate
	Lock conclavesql.Lock // names the job; not the lock of an election
	// Every is the period, and the limit of a run: a second or more, in whole
	// milliseconds. Periods are counted from Monday, 1990-01-01 00:00 UTC, so that days
	// begin at midnight and weeks on Monday, by the database's clock.
	Every time.Duration
	// Name is this process's name in the row, as in conclave.NodeID. Default the host's.
	Name string
	// Logger receives a WARN for a run that failed or died, periods without a run, and
	// a database that cannot be used or whose clock was set back; nil discards them.
	Logger *slog.Logger
}

// Run is one run of a job.
type Run struct {
	Number uint64 // rises by one with each run of the job, from 1
	Missed uint64 // periods without a run since the last one, which nothing makes up for
	Died   bool   // the last run has not ended: its process died in it, or could not record its end
	// Token fences what the run writes, by fence.Exec and fence.Tx. It is valid until
	// the next run begins.
	Token fence.Token
}

// Last is what the job's row says. The zero Last is that of a job that has never run.
type Last struct {
	Number  uint64        // of the last run
	By      string        // its process: name@incarnation
	Age     time.Duration // since it began, by the database's clock
	Running bool          // it has not ended, and may still be running
	Died    bool          // it has not ended, and is past its limit
	Failure string        // the beginning of its error, in ASCII; empty if it did not fail
	Missed  uint64        // periods without a run before it, in all
	Overdue uint64        // whole periods without a run since
	Next    time.Duration // until the next run may begin; 0 if it may now
}

// Run calls f in each period in which no other process does, until ctx ends, and then
// returns nil. It returns an error if the job is invalid, or if the database cannot be used
// from the beginning (no table, no privilege); later errors are logged, and it tries again.
// It calls f from its own goroutine. Concurrent calls count as processes.
//
// f's context ends with ctx, and after Every: then another process may begin the next run.
// f's error is recorded and logged; the next run is that of the next period. A panic of f
// is not recovered, and counts as a death. While the database cannot be used, the end of a
// run is tried until the next one is due or ctx has ended, and for three seconds at least.
func (j *Job) Run(ctx context.Context, f func(ctx context.Context, run Run) error) error {
	p := &process{Job: *j, f: f}
	host, _ := os.Hostname()
	p.Name = cmp.Or(p.Name, host)
	err := errors.Join(p.Lock.Validate(), conclave.ValidateName(p.Name))
	if err == nil && (p.Every < time.Second || p.Every%time.Millisecond != 0) {
		err = fmt.Errorf("invalid Every %v, want a second or more in whole milliseconds", p.Every)
	}
	if err != nil {
		return fmt.Errorf("once: job %s: %w", p.Lock, err)
	}
	p.id = conclave.NodeID{Name: p.Name, Incarnation: conclave.NewIncarnation(random.New())}
	p.log = cmp.Or(p.Logger, slog.New(slog.DiscardHandler)).With("job", p.Lock.String())
	worked := false
	for pause := spread; ; {
		wait, err := p.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			worked, pause = true, spread
		case !worked && !errors.Is(err, conclavesql.ErrUnavailable):
			return err
		default:
			p.warn("the job cannot be run", err, conclavesql.Advice(err))
			wait, pause = pause, min(2*pause, 5*time.Second)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// Last reads the job's row. It needs no field but DB and Lock; without Every, the period is
// that of the last run.
func (j *Job) Last(ctx context.Context) (Last, error) {
	r, err := j.look(ctx)
	switch {
	case errors.Is(err, conclavesql.ErrNoRows) || err == nil && r.number == 0:
		return Last{}, nil
	case err != nil:
		return Last{}, err
	}
	every := cmp.Or(j.Every, r.every)
	if r.overdue(every) > 0 { // or the pool's connections lead to a former primary: its address has moved
		j.DB.Renew()
		if r, err = j.look(ctx); err != nil {
			return Last{}, err
		}
	}
	return Last{
		Number: r.number, By: r.owner, Age: r.age, Failure: r.failure, Missed: r.missed,
		Running: r.running(), Died: r.died(), Overdue: r.overdue(every), Next: r.wait(every),
	}, nil
}

// endTime is for how long it is tried at least to record the end of a run: also after the
// end of Run's context, and when the next run is due.
const endTime = 3 * time.Second

// spread is the time after the beginning of a period in which the processes look at the row.
const spread = 100 * time.Millisecond

// process is one call of Job.Run.
type process struct {
	Job
	f      func(context.Context, Run) error
	log    *slog.Logger
	id     conclave.NodeID // the owner of its runs
	next   Run             // the last one that it tried to begin
	ran    uint64          // the number of the last one that it ran
	logged reasons.Seen    // what was logged, and when
}

// warn logs what lasts, once a minute.
func (p *process) warn(what string, err error, advice string) {
	if p.logged.New(what, err, time.Minute) {
		p.log.Warn(what, "error", err, "advice", advice)
	}
}

var errSetBack = errors.New("the database's clock was set back to before the last run, or this is another server")

// round looks at the row, runs the job if that is due, and returns for how long there is
// nothing to do.
func (p *process) round(ctx context.Context) (time.Duration, error) {
	r, err := p.look(ctx)
	if errors.Is(err, conclavesql.ErrNoRows) {
		if _, err := p.DB.Exec(ctx, conclavesql.LockSeed, p.Lock.DataCenter, p.Lock.Name, p.Every.Milliseconds()); err != nil {
			return 0, fmt.Errorf("once: create the row of job %s: %w", p.Lock, err)
		}
		r, err = p.look(ctx)
	}
	if err != nil {
		return 0, err
	}
	if r.number > 0 && r.age < -time.Second {
		p.warn("no run begins before the clock has passed the last one", fmt.Errorf("%w: it began %v ahead", errSetBack, -r.age),
			"synchronise the clocks of the database's hosts (NTP); if they are right now, set gmt_modified of the job's row to UTC_TIMESTAMP(3)")
	}
	if r.owner == p.id.String() && r.running() && r.number > p.ran {
		// It was begun by a statement whose answer was lost.
		p.run(ctx, r.asked.Add(r.every-r.age))
		return 0, nil
	}
	if wait := r.wait(p.Every); wait > 0 {
		// At least one look in each period, also if the clock is set meanwhile.
		return min(wait, p.Every) + rand.N(min(spread, p.Every/100)), nil
	}
	period := r.now.Truncate(p.Every)
	p.next = Run{Number: r.number + 1, Missed: r.overdue(p.Every), Died: r.died()}
	began := time.Now()
	n, err := p.DB.Exec(ctx, statement("begin"), p.id.String(), r.missed+p.next.Missed, p.Every.Milliseconds(),
		p.Lock.DataCenter, p.Lock.Name, r.number, period.Microseconds(), (period + p.Every).Microseconds())
	if err != nil { // the next look shows whether it was executed
		return 0, fmt.Errorf("once: begin run %d of job %s: %w", p.next.Number, p.Lock, err)
	}
	if n == 0 { // another process was faster, or the period has ended
		return spread + rand.N(spread), nil
	}
	p.run(ctx, began.Add(p.Every))
	return 0, nil
}

// run runs the job as p.next, which has begun, and records its end.
func (p *process) run(ctx context.Context, limit time.Time) {
	run := p.next
	p.ran = run.Number
	run.Token = fence.Token{Lock: p.Lock, Owner: p.id.String(), Term: run.Number}
	log := p.log.With("run", run.Number)
	if run.Missed > 0 || run.Died {
		log.Warn("there were periods without a run, or the last run has not ended", "missed", run.Missed, "died", run.Died)
	}
	inside, cancel := context.WithDeadline(ctx, limit)
	err := p.f(inside, run)
	cancel()
	if err != nil {
		log.Warn("the run failed", "error", err)
	}
	least := time.Now().Add(endTime)
	for pause := spread; ; pause = min(2*pause, 16*spread) {
		n, failed := p.DB.Exec(context.WithoutCancel(ctx), statement("end"), failure(err), p.Lock.DataCenter, p.Lock.Name, p.id.String(), run.Number)
		if n == 1 || failed == nil && pause > spread { // otherwise an earlier try may have been executed
			return
		}
		late := time.Now().After(least)
		if failed == nil || late && (ctx.Err() != nil || time.Now().After(limit)) {
			log.Warn("the end of the run is not recorded: the next one has begun, or the run will count as dead", "error", failed)
			return
		}
		if late {
			p.warn("the end of the run is not recorded yet", failed, conclavesql.Advice(failed))
		}
		time.Sleep(pause)
	}
}

// failure returns the text of an error as the column takes it: 255 characters of ASCII.
func failure(err error) string {
	if err == nil {
		return ""
	}
	text := strconv.QuoteToASCII(cmp.Or(err.Error(), "failed"))
	return text[1:min(len(text)-1, 256)]
}

// row is the job's row as read at one moment. now and age are by the database's clock,
// since the origin and since the last run began.
type row struct {
	owner, failure string
	number, missed uint64
	every          time.Duration // of the last run
	ended          bool
	now, age       time.Duration
	asked          time.Time // before it was read, by this process's clock
}

// look reads the row.
func (j *Job) look(ctx context.Context) (row, error) {
	r := row{asked: time.Now()}
	var every, age, now int64
	err := j.DB.QueryRow(ctx, statement("look"), []any{j.Lock.DataCenter, j.Lock.Name},
		&r.owner, &r.number, &r.missed, &every, &r.ended, &r.failure, &age, &now)
	if err != nil {
		return row{}, fmt.Errorf("once: read job %s: %w", j.Lock, err)
	}
	r.every, r.age, r.now = time.Duration(every)*time.Millisecond, time.Duration(age)*time.Microsecond, time.Duration(now)*time.Microsecond
	return r, nil
}

func (r row) running() bool { return r.number > 0 && !r.ended && r.age < r.every }
func (r row) died() bool    { return r.number > 0 && !r.ended && r.age >= r.every }

// overdue returns how many whole periods have passed without a run since the last one.
func (r row) overdue(every time.Duration) uint64 {
	if r.number == 0 {
		return 0
	}
	return uint64(max(0, (r.now.Truncate(every)-(r.now-r.age).Truncate(every))/every-1))
}

// wait returns the time until the next run may begin: in the period after that of the
// last one, when that has ended, or has reached its limit.
func (r row) wait(every time.Duration) time.Duration {
	if r.number == 0 {
		return 0
	}
	began := r.now - r.age
	next := began.Truncate(every) + every
	if !r.ended {
		next = max(next, began+r.every)
	}
	return max(0, next-r.now)
}

// files holds the statements, one in each file, under the rule of package sql.
//
//go:embed sql/*.sql
var files embed.FS

var statement = conclavesql.Statements(files)
