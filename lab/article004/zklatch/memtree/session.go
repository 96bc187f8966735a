package memtree

import (
	"maps"
	"slices"
	"time"
)

// session is a client's session. Server.mu guards it.
type session struct {
	id      int64
	timeout time.Duration
	timer   *time.Timer // ends it; reset by each request
	touched time.Time   // the last request
	conn    *conn       // nil while there is none
}

// The timeouts that a session is granted.
const shortest, longest = 50 * time.Millisecond, time.Minute

// open creates a session; mu is held.
func (s *Server) open(timeout time.Duration) *session {
	s.ids++
	ses := &session{id: s.ids, timeout: min(max(timeout, shortest), longest)}
	ses.timer = time.AfterFunc(ses.timeout, func() { s.overdue(ses) })
	s.sessions[ses.id] = ses
	return ses
}

// touch restarts a session's timeout; mu is held.
func (ses *session) touch() {
	ses.touched = time.Now()
	ses.timer.Reset(ses.timeout)
}

// overdue ends a session from which nothing was received for its timeout.
func (s *Server) overdue(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(ses.touched) >= ses.timeout { // otherwise a request came while the timer fired
		s.expire(ses)
	}
}

// Expire ends a session as if its timeout had passed.
func (s *Server) Expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[id]; ses != nil {
		s.expire(ses)
	}
}

// expire ends a session, its watches and its nodes; mu is held.
func (s *Server) expire(ses *session) {
	if s.sessions[ses.id] != ses {
		return
	}
	delete(s.sessions, ses.id)
	ses.timer.Stop()
	s.unwatch(ses)
	for _, path := range slices.Sorted(maps.Keys(s.nodes)) {
		if s.nodes[path].EphemeralOwner == ses.id {
			_ = s.remove(path, anyVersion) // cannot fail: it exists and has no children
		}
	}
	if ses.conn != nil {
		ses.conn.hangUp()
	}
}

// event sends an event of a watch; mu is held.
func (ses *session) event(what int32, path string) {
	if ses.conn == nil {
		return // its watches are removed with the connection
	}
	e := newPacket()
	e.int(xidEvent)
	e.long(-1)
	e.int(0)
	e.int(what)
	e.int(stateSync)
	e.string(path)
	ses.conn.send(e)
}
