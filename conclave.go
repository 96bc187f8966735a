package conclave

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// Role says what a process is in the cluster.
type Role string

// The three roles of the cluster, in the words of the articles. Clients and the
// database are not members and have no role.
const (
	RoleMeta    Role = "meta"    // elects a leader, keeps leases, slot table, blacklist
	RoleData    Role = "data"    // keeps publishers in memory, sharded in slots
	RoleSession Role = "session" // holds client connections and the truth about their publishers
)

// ParseRole reads a role; the error names what was given.
func ParseRole(s string) (Role, error) {
	switch r := Role(s); r {
	case RoleMeta, RoleData, RoleSession:
		return r, nil
	}
	return "", fmt.Errorf("role %q is none of meta, data, session", s)
}

// NodeID is who a node is: a name that stays, and an incarnation that is new
// with each start of its process. A restarted node is a new owner of whatever
// it owns (the original knows nodes by their IP and hands a restarted leader
// its old term with an empty memory). Addresses are data, never identity, so
// that many nodes fit on one machine.
type NodeID struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

var nodeName = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,61}[a-zA-Z0-9])?$`)

// ValidateName says whether s can name a node: 1 to 63 letters, digits, dots,
// dashes or underscores, beginning and ending with a letter or digit.
func ValidateName(s string) error {
	if !nodeName.MatchString(s) {
		return fmt.Errorf("node name %q: want 1 to 63 letters, digits, '.', '-' or '_', beginning and ending with a letter or digit", s)
	}
	return nil
}

// NewIncarnation draws a fresh incarnation. Incarnations are compared for
// equality only; no order between them is used anywhere.
func NewIncarnation(r *rand.Rand) string {
	var b [8]byte
	n := r.Uint64()
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	return hex.EncodeToString(b[:])
}

// IsZero says that n names nobody.
func (n NodeID) IsZero() bool { return n == NodeID{} }

// String is name@incarnation: the form that rows, logs and tokens show.
func (n NodeID) String() string {
	if n.IsZero() {
		return ""
	}
	return n.Name + "@" + n.Incarnation
}

// ParseNodeID reads the form that String writes; "" is nobody.
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

// Compare orders ids by name, then incarnation: the order of every list that
// others can see.
func (n NodeID) Compare(o NodeID) int {
	if c := strings.Compare(n.Name, o.Name); c != 0 {
		return c
	}
	return strings.Compare(n.Incarnation, o.Incarnation)
}

// Epoch orders what leaders decide: the term of the leader that decided, then a
// sequence that the leader counts within its term, from 1. It replaces the
// original's wall-clock ids, which fall when a clock is set back. The zero
// Epoch is older than every decision.
type Epoch struct {
	Term uint64 `json:"term"`
	Seq  uint64 `json:"seq"`
}

// Compare is -1, 0 or +1 as e is older than, the same as, or newer than o.
func (e Epoch) Compare(o Epoch) int {
	switch {
	case e.Term < o.Term, e.Term == o.Term && e.Seq < o.Seq:
		return -1
	case e == o:
		return 0
	}
	return 1
}

// Less says that e is older than o.
func (e Epoch) Less(o Epoch) bool { return e.Compare(o) < 0 }

// IsZero says that nothing has been decided yet.
func (e Epoch) IsZero() bool { return e == Epoch{} }

// String is term.seq.
func (e Epoch) String() string {
	return strconv.FormatUint(e.Term, 10) + "." + strconv.FormatUint(e.Seq, 10)
}
