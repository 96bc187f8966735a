package conclave

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Role is the role of a process in the cluster.
type Role string

// The three roles, in the words of the articles. Clients and the database are
// not members of the cluster and have no role.
const (
	RoleMeta    Role = "meta"    // elects a leader, which keeps leases, slot table and blacklist
	RoleData    Role = "data"    // keeps publishers in memory, sharded in slots
	RoleSession Role = "session" // holds client connections; source of truth for their publishers
)

// ParseRole returns the role that s names.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleMeta, RoleData, RoleSession:
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q (want meta, data or session)", s)
}

// NodeID identifies one life of a node: a name that stays the same, and an
// incarnation that is new with each start of its process. A restarted node is
// therefore a different owner. (The original identifies nodes by IP address,
// and lets a restarted leader keep its old term with an empty memory.)
// Addresses are not part of the identity, so many nodes can run on one machine.
type NodeID struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

var nodeName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)

// ValidateName returns an error unless s is a valid node name: 1 to 63 letters,
// digits, dots, dashes or underscores, beginning and ending with a letter or
// digit.
func ValidateName(s string) error {
	if !nodeName.MatchString(s) {
		return fmt.Errorf("node name %q: want 1 to 63 letters, digits, '.', '-' or '_', beginning and ending with a letter or digit", s)
	}
	return nil
}

// NewIncarnation returns a random incarnation. Incarnations are only compared
// for equality; they have no order.
func NewIncarnation(r *rand.Rand) string {
	return hex.EncodeToString(binary.LittleEndian.AppendUint64(nil, r.Uint64()))
}

// IsZero reports whether n is the zero NodeID, which stands for no node.
func (n NodeID) IsZero() bool { return n == NodeID{} }

// String returns name@incarnation, the form in rows, logs and tokens, or "" for
// the zero NodeID.
func (n NodeID) String() string {
	if n.IsZero() {
		return ""
	}
	return n.Name + "@" + n.Incarnation
}

// ParseNodeID parses the form that String returns.
func ParseNodeID(s string) (NodeID, error) {
	if s == "" {
		return NodeID{}, nil
	}
	name, inc, ok := strings.Cut(s, "@")
	if !ok || inc == "" {
		return NodeID{}, fmt.Errorf("node id %q: want NAME@INCARNATION", s)
	}
	if err := ValidateName(name); err != nil {
		return NodeID{}, err
	}
	return NodeID{Name: name, Incarnation: inc}, nil
}

// Compare orders ids by name, then by incarnation. Every list that is visible
// outside the process has this order.
func (n NodeID) Compare(o NodeID) int {
	return cmp.Or(strings.Compare(n.Name, o.Name), strings.Compare(n.Incarnation, o.Incarnation))
}

// Epoch orders the decisions of leaders: by the term of the leader, then by a
// sequence number that the leader counts within its term, from 1. It replaces
// the original's wall-clock ids, which decrease when a clock is set back. The
// zero Epoch is older than every decision.
type Epoch struct {
	Term uint64 `json:"term"`
	Seq  uint64 `json:"seq"`
}

// Compare returns -1, 0 or +1 if e is older than, the same as, or newer than o.
func (e Epoch) Compare(o Epoch) int {
	return cmp.Or(cmp.Compare(e.Term, o.Term), cmp.Compare(e.Seq, o.Seq))
}

// Less reports whether e is older than o.
func (e Epoch) Less(o Epoch) bool { return e.Compare(o) < 0 }

// MaxJump is how far a peer may raise a term, or a sequence number within its
// term, above the highest that is known here. Otherwise a broken or hostile peer
// could make a node refuse every future leader. With an election each second a
// node would have to be away for half a year to miss as many terms.
const MaxJump = 1 << 24

// Plausible reports whether e is at most MaxJump above seen.
func (e Epoch) Plausible(seen Epoch) bool {
	if e.Term != seen.Term {
		seen.Seq = 0
	}
	return e.Term <= seen.Term+MaxJump && e.Seq <= seen.Seq+MaxJump
}

// IsZero reports whether e is the zero Epoch: no decision has been made.
func (e Epoch) IsZero() bool { return e == Epoch{} }

// String returns term.seq.
func (e Epoch) String() string {
	return strconv.FormatUint(e.Term, 10) + "." + strconv.FormatUint(e.Seq, 10)
}
