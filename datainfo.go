package conclave

import (
	"fmt"
	"strings"
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
	id := DataInfoID{DataID: dataID, Instance: instance, Group: group}
	if id.Instance == "" {
		id.Instance = DefaultInstance
	}
	if id.Group == "" {
		id.Group = DefaultGroup
	}
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
