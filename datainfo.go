package conclave

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Defaults and limits of the names and values of clients. The default names are
// the original's, so that the keys of both registries agree.
const (
	DefaultInstance = "DEFAULT_INSTANCE_ID"
	DefaultGroup    = "DEFAULT_GROUP"

	MaxDataID  = 255      // characters in a dataId, an instance or a group
	MaxValue   = 64 << 10 // bytes in one published value
	MaxRequest = 4 << 20  // bytes in one request

	dataInfoSeparator = "#@#"

	valueOverhead = 4 // bytes on the wire for each value, besides the value itself
)

// DataInfoID is the full name under which clients publish and subscribe: a
// dataId within an instance (a tenant) and a group. NewDataInfoID replaces an
// empty Instance or Group by its default.
type DataInfoID struct {
	DataID   string `json:"dataId"`
	Instance string `json:"instance"`
	Group    string `json:"group"`
}

// NewDataInfoID fills in the defaults and checks the limits. The error names
// the part that violates one.
func NewDataInfoID(dataID, instance, group string) (DataInfoID, error) {
	id := DataInfoID{DataID: dataID, Instance: cmp.Or(instance, DefaultInstance), Group: cmp.Or(group, DefaultGroup)}
	return id, id.Validate()
}

// ParseDataInfoID parses the form that String returns.
func ParseDataInfoID(s string) (DataInfoID, error) {
	parts := strings.SplitN(s, dataInfoSeparator, 4)
	if len(parts) != 3 {
		return DataInfoID{}, fmt.Errorf("data info id %.128q: want DATAID#@#INSTANCE#@#GROUP", s)
	}
	return NewDataInfoID(parts[0], parts[1], parts[2])
}

// String returns dataId#@#instance#@#group, the key from which the slot is
// computed.
func (d DataInfoID) String() string {
	return d.DataID + dataInfoSeparator + d.Instance + dataInfoSeparator + d.Group
}

// Validate checks every part against the limits.
func (d DataInfoID) Validate() error {
	for _, p := range [...]struct{ what, s string }{{"dataId", d.DataID}, {"instance", d.Instance}, {"group", d.Group}} {
		if err := validatePart(p.what, p.s); err != nil {
			return err
		}
	}
	return nil
}

func validatePart(what, s string) error {
	switch n := utf8.RuneCountInString(s); {
	case !utf8.ValidString(s):
		return fmt.Errorf("%s %.20q is not UTF-8", what, s)
	case n == 0:
		return fmt.Errorf("%s is empty", what)
	case n > MaxDataID:
		return fmt.Errorf("%s %.20q... has %d characters, the limit is %d", what, s, n, MaxDataID)
	case strings.Contains(s, dataInfoSeparator):
		return fmt.Errorf("%s %q contains %q", what, s, dataInfoSeparator)
	case strings.HasPrefix(s, "@#"), strings.HasSuffix(s, "#@"):
		// Joined with its neighbour, the part would read as another name.
		return fmt.Errorf("%s %q begins with \"@#\" or ends with \"#@\", halves of the separator %q", what, s, dataInfoSeparator)
	case strings.Contains(s, "="):
		return fmt.Errorf("%s %q contains '='", what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%s %q contains a control character", what, s)
	}
	return nil
}

// ValidateValues checks one publisher's values against the limits.
func ValidateValues(values []string) error {
	total := 0
	for i, v := range values {
		if len(v) > MaxValue {
			return fmt.Errorf("value %d has %d bytes, the limit is %d", i, len(v), MaxValue)
		}
		if !utf8.ValidString(v) {
			return fmt.Errorf("value %d is not UTF-8", i)
		}
		total += len(v) + valueOverhead
	}
	if total > MaxRequest/2 {
		return fmt.Errorf("the values have %d bytes together, the limit is %d", total, MaxRequest/2)
	}
	return nil
}

// Publisher is one registration: one client process that offers values under
// one DataInfoID. The session of the client is the source of truth for it; data
// nodes keep copies (article 002: sessions keep what clients publish, and the
// index in the data nodes can be rebuilt from them).
type Publisher struct {
	// ID is the registration id. It is random for each client process, so that
	// no order between processes is needed.
	ID   string     `json:"id"`
	Data DataInfoID `json:"data"`
	// Version counts the changes of this registration within its process, from
	// 1. The higher version wins; equal versions have equal content.
	Version int64 `json:"version"`
	// Values are what subscribers receive, in the publisher's order.
	Values []string `json:"values,omitempty"`
	// Withdrawn marks a tombstone: a version of the registration without
	// values, left by a withdrawal.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// Datum is what is visible under one DataInfoID: the values of every live
// publisher, sorted by registration id, under one version of its slot.
type Datum struct {
	Data DataInfoID `json:"data"`
	// Version is the slot's counter when the datum last changed. It stays below
	// 2^53, so that clients in JavaScript can represent it.
	Version int64    `json:"version"`
	Values  []string `json:"values"`
	// Unconfirmed is the time for which values may be missing that are expected
	// to come back; 0: none are. The session waits for them before it pushes a
	// first list that is empty, for as long as the subscription allows
	// (client.HoldAtMost), or one that lacks much of what a subscriber has. Any
	// other list is pushed at once.
	Unconfirmed time.Duration `json:"-"`
}

const (
	// VersionBase is the distance between the version bases of a slot's leader
	// epochs. A new leader's versions start above every version that an older
	// one may have issued.
	VersionBase = 1 << 22
	// MaxVersion is the highest version that a datum may carry.
	MaxVersion = 1<<53 - 1
)
