package sql

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
	"unicode/utf8"
)

// Kind is one kind of cluster state; each is one row.
type Kind string

// What the leader decides about.
const (
	KindTable     Kind = "table"     // which node leads and follows which slot
	KindMembers   Kind = "members"   // the nodes of the cluster
	KindBlacklist Kind = "blacklist" // nodes that get no slot or no client
	KindSwitches  Kind = "switches"  // what operators set
	KindFreeze    Kind = "freeze"    // whether slots may move (protection)
)

// Kinds lists all kinds, sorted.
func Kinds() []Kind {
	return []Kind{KindBlacklist, KindFreeze, KindMembers, KindSwitches, KindTable}
}

// Fence is who writes, and under which term. A write lands only while the lock row
// says the same.
type Fence struct {
	Owner string // name@incarnation
	Term  uint64
}

// State is one decision: a kind's row.
type State struct {
	Kind  Kind
	Body  string // JSON; empty before the first write
	Term  uint64 // the epoch: the term of the leader that wrote it,
	Seq   uint64 // and its sequence within that term, from 1
	Nonce string // drawn for each write; tells whose of two equal epochs stands

	Modified time.Time // by the database's clock; only to be shown
}

// NewNonce draws a nonce: 128 bits in hex.
func NewNonce(r *rand.Rand) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], r.Uint64())
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	return hex.EncodeToString(b[:])
}

// Outcome is how a fenced write ended. Losing is a result, not an error.
type Outcome int

const (
	// Unknown: no answer came. The write may have been applied, or may be later.
	// Write nothing and publish nothing until Settle says more.
	Unknown Outcome = iota
	// Written: the row is what was to be written. Publish.
	Written
	// Unwritten (of Settle only): the old decision still stands. Write again, from
	// the same old state: of the two at most one lands.
	Unwritten
	// Conflict: the term is mine but the row is not as read, because an earlier
	// write of mine landed late. Read, adopt what stands, decide again.
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

// StateStore reads and writes the state of one cluster. It is for one
// writer at a time in each process; the database keeps the processes apart.
type StateStore struct {
	db   *DB
	lock Lock
}

// NewStateStore is the store of the cluster that lock elects for.
func NewStateStore(db *DB, lock Lock) *StateStore { return &StateStore{db, lock} }

// Read returns all kinds, as they were at one moment. A kind without a row (an
// emptied database) gets one again, at epoch (0, 0), as Migrate gives it: every
// write is an UPDATE, and would match nothing for ever.
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
	states := make(map[Kind]State)
	err := s.db.Query(ctx, StateRead, []any{s.lock.DataCenter, s.lock.Name}, func(scan func(...any) error) error {
		var st State
		if err := scan(&st.Kind, &st.Body, &st.Term, &st.Seq, &st.Nonce, &st.Modified); err != nil {
			return err
		}
		states[st.Kind] = st
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", s.lock, err)
	}
	return states, nil
}

// Write replaces old by next, under the fence: one statement that joins the lock
// row. next says Body, Seq and Nonce; Kind is old's and Term is the fence's. The
// error is set only with Unknown.
func (s *StateStore) Write(ctx context.Context, fence Fence, old, next State) (Outcome, error) {
	if !utf8.ValidString(next.Body) {
		return Unknown, fmt.Errorf("write %s: the body is not UTF-8", old.Kind)
	}
	n, err := s.db.Exec(ctx, StateWrite, next.Body, fence.Term, next.Seq, next.Nonce,
		s.lock.DataCenter, s.lock.Name, string(old.Kind), old.Term, old.Seq, fence.Owner, fence.Term)
	return s.outcome(ctx, "write", fence, old.Kind, n, err)
}

// Seal takes every decision of an older term over into the fence's, bodies
// untouched, in one statement: the first write of a term. After Unknown it may be
// repeated with the same sequence and nonce. Conflict: nothing was left to seal;
// Read says what stands.
func (s *StateStore) Seal(ctx context.Context, fence Fence, seq uint64, nonce string) (Outcome, error) {
	n, err := s.db.Exec(ctx, StateSeal, fence.Term, seq, nonce, s.lock.DataCenter, s.lock.Name, fence.Term, fence.Owner, fence.Term)
	return s.outcome(ctx, "seal", fence, "all kinds", min(n, 1), err)
}

// outcome tells apart why no row changed.
func (s *StateStore) outcome(ctx context.Context, act string, fence Fence, kind Kind, changed int64, err error) (Outcome, error) {
	switch {
	case err != nil:
		return Unknown, fmt.Errorf("%s %s in term %d: %w", act, kind, fence.Term, err)
	case changed == 1:
		return Written, nil
	}
	mine, err := s.mine(ctx, fence)
	switch {
	case err != nil:
		return Unknown, fmt.Errorf("%s %s in term %d: %w", act, kind, fence.Term, err)
	case !mine:
		return Deposed, nil
	}
	return Conflict, nil
}

// Settle says, after Unknown, what became of the write from old to next: it
// re-reads the row and the lock and looks whose nonce stands. The State is the row
// as it stands now.
func (s *StateStore) Settle(ctx context.Context, fence Fence, old, next State) (Outcome, State, error) {
	states, err := s.Read(ctx)
	if err != nil {
		return Unknown, State{}, err
	}
	mine, err := s.mine(ctx, fence)
	if err != nil {
		return Unknown, State{}, fmt.Errorf("settle %s in term %d: %w", old.Kind, fence.Term, err)
	}
	stands := states[old.Kind]
	switch {
	case !mine:
		return Deposed, stands, nil
	case stands.Nonce == next.Nonce:
		return Written, stands, nil
	case stands.Term == old.Term && stands.Seq == old.Seq:
		return Unwritten, stands, nil
	}
	return Conflict, stands, nil
}

// mine says whether the lock row still names the fence.
func (s *StateStore) mine(ctx context.Context, fence Fence) (bool, error) {
	var now Fence
	err := s.db.QueryRow(ctx, StateOwner, []any{s.lock.DataCenter, s.lock.Name}, &now.Owner, &now.Term)
	if errors.Is(err, ErrNoRows) {
		return false, nil
	}
	return now == fence, err
}
