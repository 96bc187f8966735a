package termcas

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"conclave/elector"
	"conclave/internal/signal"
	conclavesql "conclave/sql"
)

// Shared lets the elections of one process, each of a lock of its own, share their
// connections and statements.
//
// Their strategies follow the rules of the package comment on one connection with one
// witness. A thousand elections need four connections, one statement a beat for the
// terms that are led and one for the rows that are followed. What is different:
//
//   - Rounds wait for each other, for a sixteenth of a beat. One UPDATE renews all
//     terms, one wins all locks for one reason (if the elections have one ID, Address
//     and Lease), and one SELECT reads all other rows. Trust counts from the beginning
//     of the beat, before the statement was sent ([elector.Term.Sent]). A Round that is
//     early, because something has happened, is answered at once, together with those
//     that come during the last statement.
//
//   - A row that another client has locked is left out (SKIP LOCKED), and delays no
//     other. Its leader renews it on the pool, where it may wait for the lock, one
//     election at a time, and a candidate that was left out five times wins it there.
//     So no statement for many is ever interrupted because it is slow: its limit is a
//     lease, after which no term is trusted any more that was led when it was sent.
//
//     A server whose binary log has statements as text (binlog_format=STATEMENT) is
//     not used, because its replicas would leave out other rows.
//
//   - If the connection is lost, all leaders of the process are suspended, and renew
//     on the next one.
//
//   - A second connection waits for the witness of one other process (rule 3): of the
//     next one in the order of their connections. So a killed process is replaced at
//     once in each election in which one that waits for it takes part: they get its lock
//     one after the other. In the others, or if that one is killed too, the lease decides.
//     At most 32 of its leaders are asked at the same time (rule 4c), within a beat; once
//     one of them has confirmed its term, silence of another is no reason to compete.
//
//   - A dead host is noticed up to a beat later, because rows are read at the beats of
//     the reader, and a connection that does not answer any more is closed after a lease.
//     An election that ends without a hand-over, while its process lives on, is replaced
//     after the lease, and one that resigns frees no lock: the other candidates learn of
//     it from elector.Config.WakePeers or by their next read.
type Shared struct {
	host    *Strategy // opens the connection, and observes the database's health; belongs to run
	watcher *Strategy // waits for the witness of another process; belongs to watch

	queued signal.Signal  // a question is in the queue, for run
	turns  turns          // of those that use the pool
	waits  turns          // of the one that waits there for a row that is locked
	asking turns          // of those that ask a leader at its port
	group  sync.WaitGroup // run and watch
	free   atomic.Pointer[freeLock]

	mu      sync.Mutex // guards the fields below; never held across I/O
	members map[string]*Strategy
	rows    map[string]row // as last read
	queue   []*question
	me      elector.Candidate // of the last batch
	grid    time.Time         // beats are counted from here; zero: from the next question, which waits for no other
	nonce   string            // of the wins in the next batch
	conn    *witnessConn      // with the witness of all terms; nil before the first question
}

// freeLock is the lock of another process's leaders, while watcher has acquired it.
type freeLock struct {
	lock string
	by   stdsql.NullInt64 // the watcher's connection, which holds it
	at   time.Time

	confirmed atomic.Bool // by one of them, at its port: their process is alive
}

// question is what a Round asks: to read its row, and before that to update it.
type question struct {
	ctx    context.Context
	me     elector.Candidate
	name   string    // of the lock; empty: only for the connection
	update *update   // nil: only read
	due    time.Time // it is sent at once if another is; otherwise it waits for others until then

	answer chan answer // capacity one
}

// update is a change of one row by a statement that changes many.
type update struct {
	statement string
	conn      *witnessConn       // the only connection for it
	row       []any              // the lock's name and what the row must contain
	common    []any              // the arguments after the rows'
	done      func(now row) bool // reports whether a row was changed by this statement
}

// answer is the answer to a question.
type answer struct {
	row  row // if it was read
	done bool
	conn *witnessConn
	sent time.Time // the beginning of the beat in which it was sent
	err  error
}

// turns limits how many elections do the same at the same time.
type turns chan struct{}

// wait waits for a turn, and reports whether that was in time.
func (t turns) wait(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// end ends a turn.
func (t turns) end() { <-t }

const (
	early    = 32   // the part of a beat by which Rounds come before it,
	gather   = 16   // and for which those that have come wait for others
	patience = 8    // the part for which others wait that are not urgent, at another time
	together = 1000 // rows in one statement, as its LIMIT has it
	atPool   = 2    // at the same time: in the pool's own queue, a statement has a deadline
	atPort   = 32   // questions to the leaders of one process at the same time
)

// NewShared returns a Shared without elections, or an error if the configuration is
// invalid. It does not connect. Of cfg it uses DB, whose pool is for resignations, the
// history, and the renewals of rows that are locked (two connections suffice,
// sql.Options.MaxConns), the data center of Lock, which all locks have, Takeover, Rand,
// and Logger, for what concerns all elections.
func NewShared(cfg Config) (*Shared, error) {
	own := cfg
	own.Lock.Name = "shared"
	host, err := New(own)
	if err != nil {
		return nil, err
	}
	host.forMany = true
	own.Rand = rand.New(rand.NewPCG(host.cfg.Rand.Uint64(), host.cfg.Rand.Uint64()))
	watcher, err := New(own)
	if err != nil {
		return nil, err
	}
	s := &Shared{
		host: host, watcher: watcher, queued: signal.New(),
		turns: make(turns, atPool), waits: make(turns, 1), asking: make(turns, atPort),
		members: map[string]*Strategy{}, rows: map[string]row{}, nonce: conclavesql.NewNonce(host.cfg.Rand),
	}
	s.group.Go(s.run)
	s.group.Go(s.watch)
	return s, nil
}

// Strategy returns the strategy of one election. Of cfg it uses Lock, whose data center
// is that of the Shared, Ask, Rand, Logger and Trace. All elections should have one Beat.
func (s *Shared) Strategy(cfg Config) (*Strategy, error) {
	cfg.DB, cfg.Takeover = s.host.cfg.DB, s.host.cfg.Takeover
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Lock.DataCenter != s.host.cfg.Lock.DataCenter {
		return nil, fmt.Errorf("termcas: lock %s is not of the data center %s", cfg.Lock, s.host.cfg.Lock.DataCenter)
	}
	m.shared, m.broken = s, s.host.wake
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[cfg.Lock.Name] != nil {
		return nil, fmt.Errorf("termcas: lock %s has an election in this process", cfg.Lock)
	}
	s.members[cfg.Lock.Name] = m
	return m, nil
}

// leave removes an election that has ended. It does nothing if s is nil.
func (s *Shared) leave(name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.members, name)
	delete(s.rows, name)
}

// Close drops the connections, as a crash does. The elections must have ended.
func (s *Shared) Close() error {
	s.host.close()
	s.group.Wait()
	if s.conn != nil {
		s.conn.drop()
	}
	return errors.Join(s.watcher.Close(), s.host.Close())
}

// wake makes the elections play a Round whose rows name the lock; all if it is empty.
// What they ask is not delayed.
func (s *Shared) wake(lock string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.members {
		if lock == "" || s.rows[name].lock.String == lock {
			m.wake.Set()
		}
	}
	s.grid = time.Time{}
	s.queued.Set()
}

// ask waits for the answer to a question.
func (s *Shared) ask(ctx context.Context, q *question) (answer, error) {
	q.ctx, q.answer = ctx, make(chan answer, 1)
	s.mu.Lock()
	s.queue = append(s.queue, q)
	s.mu.Unlock()
	s.queued.Set()
	select {
	case a := <-q.answer:
		return a, a.err
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-s.host.ctx.Done():
		return answer{}, errors.New("the shared connections are closed")
	}
}

// connection returns the shared connection; after its loss, once there is another.
func (s *Shared) connection(ctx context.Context, me elector.Candidate) (*witnessConn, error) {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && !c.lost.Load() {
		return c, nil
	}
	a, err := s.ask(ctx, &question{me: me})
	return a.conn, err
}

// nextNonce returns the nonce of the wins in the next batch. Two wins of one lock are in
// two batches.
func (s *Shared) nextNonce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonce
}

// run answers the questions. What comes while a batch is in progress is the next batch.
func (s *Shared) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, sent, wait := s.batch()
		if len(batch) > 0 {
			s.play(batch, sent)
			continue
		}
		timer.Reset(wait)
		select {
		case <-s.queued.C():
		case <-timer.C:
		case <-s.host.wake.C(): // the connection is lost
			s.wake("")
		case <-s.host.ctx.Done():
			return
		}
	}
}

// batch takes the whole queue, and returns when the beat began in which it is sent. About
// the time at which a beat begins, it returns how long to wait for the Rounds of others.
func (s *Shared) batch() (batch []*question, sent time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = slices.DeleteFunc(s.queue, func(q *question) bool { return q.ctx.Err() != nil }) // a term that is not trusted any more is not renewed
	if len(s.queue) == 0 {
		return nil, time.Time{}, time.Hour
	}
	s.me = s.queue[0].me
	now, beat := time.Now(), s.me.Beat
	if s.grid.IsZero() {
		s.grid = now.Add(-beat / gather)
	}
	phase := now.Sub(s.grid) % beat
	first := slices.MinFunc(s.queue, func(a, b *question) int { return a.due.Compare(b.due) })
	switch {
	case phase < beat/gather:
		return nil, time.Time{}, beat/gather - phase
	case phase >= beat-beat/early:
		return nil, time.Time{}, beat + beat/gather - phase
	case now.Before(first.due):
		return nil, time.Time{}, first.due.Sub(now)
	}
	batch, s.queue = s.queue, nil
	s.nonce = conclavesql.NewNonce(s.host.cfg.Rand)
	return batch, now.Add(-phase), 0
}

// play answers a batch.
func (s *Shared) play(batch []*question, sent time.Time) {
	me := batch[0].me
	c, err := s.connect(me)
	answers := make(map[*question]answer, len(batch))
	if err == nil {
		err = s.execute(c, batch, answers)
	}
	var outcome elector.Term
	s.mu.Lock()
	for _, q := range batch {
		a := answers[q]
		if a.conn, a.sent = c, sent; err != nil && !a.done {
			a.err = err
		}
		if a.done {
			outcome.Leader = me.ID
			delete(s.rows, q.name)
		}
		q.answer <- a
	}
	s.mu.Unlock()
	s.host.health.after(me, elector.Term{}, outcome, err)
	s.watcher.wake.Set() // it looks at the rows that were read
}

// execute executes the updates of a batch, and reads the rows of the other questions and
// of the updates that have not changed their row.
func (s *Shared) execute(c *witnessConn, batch []*question, answers map[*question]answer) error {
	var look []*question
	var order []string // of the groups, whose updates have one statement and its common arguments
	groups := map[string][]*question{}
	for _, q := range batch {
		switch u := q.update; {
		case u != nil && u.conn == c:
			key := fmt.Sprintf("%#v", u.common)
			if groups[key] == nil {
				order = append(order, key)
			}
			groups[key] = append(groups[key], q)
		case q.name != "":
			look = append(look, q) // an update for a connection that is lost, too
		}
	}
	ctx, cancel := context.WithTimeout(s.host.ctx, batch[0].me.Lease)
	defer cancel()
	executed := false
	for _, key := range order {
		for part := range slices.Chunk(groups[key], together) {
			n, err := s.change(ctx, c, part)
			executed = executed || err == nil
			switch {
			case err != nil && !conclavesql.NotExecuted(err),
				conclavesql.IsReadOnly(err) && time.Since(c.made) >= s.me.Beat: // another may be to the new primary: see refused
				clear(answers) // as below: these rows are renewed on the next connection
				return s.lose(c, err)
			case n < int64(len(part)) && err == nil:
				look = append(look, part...)
				continue
			}
			for _, q := range part {
				answers[q] = answer{done: err == nil, err: err}
			}
		}
	}
	if executed {
		if err := c.pinned.Recheck(ctx); err != nil { // what only a minority of the servers has is no renewal
			clear(answers)
			return s.lose(c, err)
		}
	}
	for part := range slices.Chunk(look, together) {
		if err := s.look(ctx, c, part, answers); err != nil {
			if !executed && conclavesql.NotExecuted(err) {
				return err
			}
			return s.lose(c, err) // it is not known which rows were changed
		}
	}
	return nil
}

// change executes updates of one group, and returns how many rows they changed.
func (s *Shared) change(ctx context.Context, c *witnessConn, part []*question) (int64, error) {
	args := s.names(part)
	for _, q := range part {
		args = append(args, q.update.row...)
	}
	u := part[0].update
	return c.pinned.Exec(ctx, conclavesql.Repeat(u.statement, len(part)), append(args, u.common...)...)
}

// names returns the first arguments of each statement for many locks.
func (s *Shared) names(part []*question) []any {
	args := []any{s.host.cfg.Lock.DataCenter}
	for _, q := range part {
		args = append(args, q.name)
	}
	return args
}

// look reads the rows of a part of a batch.
func (s *Shared) look(ctx context.Context, c *witnessConn, part []*question, answers map[*question]answer) error {
	at, rows := time.Now(), map[string]answer{}
	err := c.pinned.Query(ctx, conclavesql.Repeat(conclavesql.LockLookAll, len(part)), s.names(part), func(scan func(...any) error) error {
		r := row{at: at}
		var name string
		var leaseMs, age int64
		err := scan(append(append([]any{&name}, r.columns(&leaseMs)...), &age)...)
		r.lease, r.age = time.Duration(leaseMs)*time.Millisecond, time.Duration(age)*time.Microsecond
		rows[name] = answer{row: r, err: err}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range part {
		a, found := rows[q.name]
		switch {
		case !found:
			a.err = conclavesql.ErrNoRows
		case a.err != nil && q.update != nil: // it may have been executed
			return a.err
		case a.err == nil:
			a.done = q.update != nil && q.update.conn == c && q.update.done(a.row)
			if s.members[q.name] != nil {
				s.rows[q.name] = a.row
			}
		}
		answers[q] = a
	}
	return nil
}

// lose drops the connection after an error, which it returns, and so suspends all leaders
// of the process. They open the next one at once, unless this one was as new.
func (s *Shared) lose(c *witnessConn, err error) error {
	c.drop()
	if time.Since(c.made) > s.me.Beat/4 {
		s.host.wake.Set()
	}
	return err
}

// connect returns the connection with the witness. After its loss it opens another.
func (s *Shared) connect(me elector.Candidate) (*witnessConn, error) {
	if s.conn != nil && !s.conn.lost.Load() {
		return s.conn, nil
	}
	if s.conn != nil {
		s.conn.drop()
	}
	c, err := s.host.open(s.host.ctx, me)
	if err != nil {
		return nil, err
	}
	nonce := conclavesql.NewNonce(s.host.cfg.Rand)
	c.lock = lockName(nonce)
	if _, c.id, err = s.host.take(s.host.ctx, me, c, nonce); err != nil {
		c.drop()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
	return c, nil
}

// watch waits for the witness of another process. While it has it, the elections whose
// rows name it may win from that process's leaders.
func (s *Shared) watch() {
	w := s.watcher
	for {
		select {
		case <-w.wake.C():
		case <-s.host.ctx.Done():
			return
		}
		r, me, found := s.neighbour()
		switch {
		case w.waiting != nil && w.waiting.obtained():
			s.offer(w.waiting, me.Beat)
		case found:
			w.waitForWitness(s.host.ctx, me, r)
		}
	}
}

// neighbour returns a row with the witness to wait for: that of the next connection after
// this process's own. Thus each process has another that waits for it, if all take part
// in the same elections. A leader whose lease has ended is dead: its row may stay, if no
// candidate is left.
func (s *Shared) neighbour() (next row, me elector.Candidate, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || !s.conn.id.Valid {
		return row{}, s.me, false
	}
	own := s.conn.id.Int64
	for _, r := range s.rows {
		distance := uint64(r.connID.Int64 - own)
		if r.vacant() || !r.connID.Valid || distance == 0 || r.age >= r.lease {
			continue
		}
		if !found || distance < uint64(next.connID.Int64-own) {
			next, found = r, true
		}
	}
	return next, s.me, found
}

// reads reports whether a row names the lock, as last read.
func (s *Shared) reads(lock string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rows {
		if r.lock.String == lock {
			return true
		}
	}
	return false
}

// offer lets the elections win from the leaders whose lock was acquired, until no row names
// it, for a beat at most, and then releases it: what they have not won, because they have
// no part in it or by then, another process may win.
func (s *Shared) offer(w *witnessWait, beat time.Duration) {
	var by stdsql.NullInt64
	if err := w.conn.query(s.host.ctx, beat/2, conclavesql.LockUsed, []any{w.lock}, &by); err == nil && by.Valid {
		s.free.Store(&freeLock{lock: w.lock, by: by, at: w.at})
		s.wake(w.lock)
		limit, cancel := context.WithTimeout(s.host.ctx, beat)
		for s.reads(w.lock) && limit.Err() == nil {
			select {
			case <-s.watcher.wake.C():
			case <-limit.Done():
			}
		}
		cancel()
		s.free.Store(nil)
		s.watcher.wake.Set() // for the next neighbour
	}
	s.watcher.stopWaiting()
}

// freed returns the lock that watch has acquired; an empty one if it is another.
func (s *Shared) freed(lock string) *freeLock {
	if f := s.free.Load(); f != nil && f.lock == lock {
		return f
	}
	return &freeLock{}
}
