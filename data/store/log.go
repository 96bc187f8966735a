package store

import wirev1 "conclave/wire/v1"

// feedLog lists the changes to a slot's copies since its leader began to serve:
// which copy changed at which position. It holds keys, not content. A follower
// that continues from a position is sent the present state of these copies,
// which is a later state of the same feed; many changes of one copy are then
// sent once.
//
// Entries are kept only while there is a follower, and only those that the
// slowest follower has not read.
type feedLog struct {
	position uint64 // of the newest change; 1 at the beginning of an epoch, so that 0 means "none"
	entries  []logEntry
	follows  bool
}

type logEntry struct {
	Key
	cause wirev1.Cause
}

// longestLog limits what one slow follower can make a leader keep. A follower
// that is further behind loads a snapshot.
const longestLog = 1 << 16

func (l *feedLog) restart() { *l = feedLog{position: 1, follows: l.follows} }

func (l *feedLog) append(key Key, cause wirev1.Cause) {
	l.position++
	if !l.follows {
		return
	}
	if len(l.entries) >= longestLog {
		l.entries = nil
	}
	l.entries = append(l.entries, logEntry{key, cause})
}

// follow sets whether there are followers.
func (l *feedLog) follow(is bool) {
	l.follows = is
	if !is {
		l.entries = nil
	}
}

// since returns at most n entries after a position. It returns false if they
// are not kept any more, or if the position is higher than the log's.
func (l *feedLog) since(position uint64, n int) ([]logEntry, bool) {
	oldest := l.position - uint64(len(l.entries))
	if position < oldest || position > l.position {
		return nil, false
	}
	rest := l.entries[position-oldest:]
	return rest[:min(n, len(rest))], true
}

// trim drops the entries up to a position.
func (l *feedLog) trim(read uint64) {
	oldest := l.position - uint64(len(l.entries))
	if read <= oldest {
		return
	}
	n := min(read-oldest, uint64(len(l.entries)))
	clear(l.entries[:n]) // keys that would otherwise be kept until append moves the rest
	if l.entries = l.entries[n:]; len(l.entries) == 0 {
		l.entries = nil
	}
}
