package data

import wirev1 "conclave/wire/v1"

// feedLog is what happened to a slot's copies since its leader began to serve:
// which copy changed at which position. It holds names, not content: whoever
// reads on from a position is sent how these copies are now, which is a later
// state of the same feed and costs a burst of changes of one copy only once.
//
// Entries are kept only while somebody follows, and only those that the slowest
// follower has not read.
type feedLog struct {
	position uint64 // of the newest change; 1 when an epoch begins, so that 0 is "nothing"
	entries  []logEntry
	follows  bool
}

type logEntry struct {
	copyKey
	cause wirev1.Cause
}

// longestLog bounds what one slow follower can make a leader keep; it loads a
// snapshot instead.
const longestLog = 1 << 16

func (l *feedLog) restart() { *l = feedLog{position: 1, follows: l.follows} }

func (l *feedLog) append(key copyKey, cause wirev1.Cause) {
	l.position++
	if !l.follows {
		return
	}
	if len(l.entries) >= longestLog {
		l.entries = nil
	}
	l.entries = append(l.entries, logEntry{key, cause})
}

// follow says whether anybody follows from now on.
func (l *feedLog) follow(is bool) {
	l.follows = is
	if !is {
		l.entries = nil
	}
}

// since lists the entries after a position, at most n; false when they are not
// kept any more, or the position is of another time.
func (l *feedLog) since(position uint64, n int) ([]logEntry, bool) {
	oldest := l.position - uint64(len(l.entries))
	if position < oldest || position > l.position {
		return nil, false
	}
	rest := l.entries[position-oldest:]
	return rest[:min(n, len(rest))], true
}

// trim forgets what everybody has read.
func (l *feedLog) trim(read uint64) {
	oldest := l.position - uint64(len(l.entries))
	if read <= oldest {
		return
	}
	n := min(read-oldest, uint64(len(l.entries)))
	l.entries = append(l.entries[:0:0], l.entries[n:]...)
}
