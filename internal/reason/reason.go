// Package reason limits how often a repeated failure is logged. A failure for
// another reason is logged at once.
package reason

import (
	"strings"
	"time"
	"unicode"
)

// Seen has when each reason was last reported. The zero value has none. It is not
// safe for concurrent use.
type Seen struct{ at map[string]time.Time }

// most bounds the reasons that are kept.
const most = 32

// New reports whether a failure of what is to be reported: its reason is new since
// Forget, or was last reported longer than every ago. Errors that differ in digits
// only, such as a port or a size, have the same reason.
func (s *Seen) New(what string, err error, every time.Duration) bool {
	key := what + "\n" + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	if at, seen := s.at[key]; seen && time.Since(at) < every {
		return false
	}
	if s.at == nil || len(s.at) == most {
		s.at = map[string]time.Time{}
	}
	s.at[key] = time.Now()
	return true
}

// Forget drops the reasons of what, because it has succeeded.
func (s *Seen) Forget(what string) {
	for key := range s.at {
		if strings.HasPrefix(key, what+"\n") {
			delete(s.at, key)
		}
	}
}
