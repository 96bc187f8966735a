package sql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Kind is one kind of cluster state. Each kind is one row.
type Kind string

// The kinds.
const (
	KindTable     Kind = "table"     // which node leads and follows which slot
	KindMembers   Kind = "members"   // the nodes of the cluster
	KindBlacklist Kind = "blacklist" // nodes that get no slots or no clients
	KindConfig    Kind = "config"    // values that are published to clients
	KindSwitches  Kind = "switches"  // settings of operators
	KindFreeze    Kind = "freeze"    // whether slots stay at the nodes of their rows (protection)
)

// Kinds returns all kinds, sorted.
func Kinds() []Kind {
	return []Kind{KindBlacklist, KindConfig, KindFreeze, KindMembers, KindSwitches, KindTable}
}

// Fence is the writer and its term. A write is applied only while the lock row
// names both.
type Fence struct {
	Owner string // name@incarnation
	Term  uint64
}

// State is the row of one kind.
type State struct {
	Kind  Kind
	Body  string // JSON; empty before the first write
	Term  uint64 // the epoch: the term of the leader that wrote it,
	Seq   uint64 // and its sequence within that term, from 1
	Nonce string // random for each write; distinguishes two writes of the same epoch

	Modified time.Time // by the database's clock; only for display
}

// NewNonce returns a random nonce: 128 bits in hex.
func NewNonce(r *rand.Rand) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], r.Uint64())
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	return hex.EncodeToString(b[:])
}

// Outcome is the result of a fenced write. Losing is a result, not an error.
type Outcome int

const (
	// Unknown: there was no answer. The write may have been applied, or may be
	// later. Write and publish nothing until Settle has returned the outcome.
	Unknown Outcome = iota
	// Written: the row has the new state. Publish it.
	Written
	// Unwritten: the row has the old state. Write again, from the same old state;
	// at most one of the two writes is applied.
	Unwritten
	// Conflict: the fence holds but the row is not as read, because an earlier
	// write of this node was applied late. Read, adopt the row, decide again.
	Conflict
	// Deposed: the lock row names another owner or term. Step down.
	Deposed
)

func (o Outcome) String() string {
	switch o {
	case Written:
		return "written"
	case Unwritten:
		return "unwritten"
	case Conflict:
		return "conflict"
	case Deposed:
		return "deposed"
	}
	return "unknown"
}

// StateStore reads and writes the state of one cluster. A process must not use
// it for two writes at once; between processes the database decides.
type StateStore struct {
	db     *DB
	lock   Lock
	packet atomic.Int64 // the server's max_allowed_packet, as last read; 0: not known yet
}

// NewStateStore returns the store of the cluster that lock elects for.
func NewStateStore(db *DB, lock Lock) *StateStore {
	return &StateStore{db: db, lock: lock}
}

// Read returns all kinds, as they were at one moment. If a kind has no row (in
// an emptied database), Read creates it at epoch (0, 0), as Migrate does,
// because every write is an UPDATE and would match nothing.
func (s *StateStore) Read(ctx context.Context) (map[Kind]State, error) {
	states, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	for _, kind := range Kinds() {
		if _, there := states[kind]; there {
			continue
		}
		if _, err := s.db.Exec(ctx, StateSeed, s.lock.DataCenter, s.lock.Name, string(kind)); err != nil {
			return nil, fmt.Errorf("seed state %s of %s: %w", kind, s.lock, err)
		}
		states[kind] = State{Kind: kind}
	}
	return states, nil
}

func (s *StateStore) read(ctx context.Context) (map[Kind]State, error) {
	states, packet := make(map[Kind]State), s.packet.Load()
	err := s.db.Query(ctx, StateRead, []any{s.lock.DataCenter, s.lock.Name}, func(scan func(...any) error) error {
		var st State
		if err := scan(&st.Kind, &st.Body, &st.Term, &st.Seq, &st.Nonce, &st.Modified, &packet); err != nil {
			return err
		}
		states[st.Kind] = st
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", s.lock, err)
	}
	s.learn(packet)
	return states, nil
}

// Write replaces old by next, under the fence: one statement that joins the
// lock row. It takes Body, Seq and Nonce from next, Kind from old and Term from
// the fence. Unwritten comes with an ErrStatement of this side: the body cannot be
// sent. Unknown comes with every other error, also with the server's ErrStatement,
// until Settle has read that nothing has changed.
func (s *StateStore) Write(ctx context.Context, fence Fence, old, next State) (Outcome, error) {
	if !utf8.ValidString(next.Body) {
		return Unwritten, fmt.Errorf("write %s: %w: the body is not UTF-8", old.Kind, ErrStatement)
	}
	if err := s.fits(ctx, next.Body); err != nil {
		return Unwritten, fmt.Errorf("write %s: %w", old.Kind, err)
	}
	n, err := s.db.Exec(ctx, StateWrite, next.Body, fence.Term, next.Seq, next.Nonce,
		s.lock.DataCenter, s.lock.Name, string(old.Kind), old.Term, old.Seq, fence.Owner, fence.Term)
	return s.outcome(ctx, "write", fence, old.Kind, n, err)
}

// Seal raises every decision of an older term to the fence's term, without
// changing the bodies, in one statement: the first write of a term. After
// Unknown it may be repeated with the same sequence and nonce. Conflict means
// that there was nothing left to seal; Read returns the present state.
func (s *StateStore) Seal(ctx context.Context, fence Fence, seq uint64, nonce string) (Outcome, error) {
	n, err := s.db.Exec(ctx, StateSeal, fence.Term, seq, nonce, s.lock.DataCenter, s.lock.Name, fence.Term, fence.Owner, fence.Term)
	return s.outcome(ctx, "seal", fence, "all kinds", min(n, 1), err)
}

// outcome returns the result of a write, and finds out why no row changed.
func (s *StateStore) outcome(ctx context.Context, action string, fence Fence, kind Kind, changed int64, err error) (Outcome, error) {
	switch {
	case err != nil:
		return Unknown, fmt.Errorf("%s %s in term %d: %w", action, kind, fence.Term, err)
	case changed == 1:
		return Written, nil
	}
	holds, err := s.holds(ctx, fence)
	switch {
	case err != nil:
		return Unknown, fmt.Errorf("%s %s in term %d: %w", action, kind, fence.Term, err)
	case !holds:
		return Deposed, nil
	}
	return Conflict, nil
}

// Settle finds out, after Unknown, what became of the write from old to next:
// it reads the row and the lock again and compares the nonces. The returned
// State is the present row.
func (s *StateStore) Settle(ctx context.Context, fence Fence, old, next State) (Outcome, State, error) {
	states, err := s.Read(ctx)
	if err != nil {
		return Unknown, State{}, err
	}
	holds, err := s.holds(ctx, fence)
	if err != nil {
		return Unknown, State{}, fmt.Errorf("settle %s in term %d: %w", old.Kind, fence.Term, err)
	}
	present := states[old.Kind]
	switch {
	case !holds:
		return Deposed, present, nil
	case present.Nonce == next.Nonce:
		return Written, present, nil
	case present.Term == old.Term && present.Seq == old.Seq:
		return Unwritten, present, nil
	}
	return Conflict, present, nil
}

// holds reports whether the lock row still names the fence.
func (s *StateStore) holds(ctx context.Context, fence Fence) (bool, error) {
	var now Fence
	err := s.db.QueryRow(ctx, StateOwner, []any{s.lock.DataCenter, s.lock.Name}, &now.Owner, &now.Term)
	if errors.Is(err, ErrNoRows) {
		return false, nil
	}
	return now == fence, err
}
