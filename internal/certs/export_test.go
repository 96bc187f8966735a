package certs

// LookAlways makes each new connection read the files.
func (s *Set) LookAlways() {
	s.every = 0
	s.next.Store(0)
}
