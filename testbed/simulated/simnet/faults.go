package simnet

// Default sets the shape of every link that has no shape of its own.
func (n *Net) Default(s Shape) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byDefault = s
	for key, l := range n.links {
		if !l.shaped && key[0] != key[1] {
			l.shape = s
		}
	}
}

// change changes the direction from one host to another.
func (n *Net) change(from, to string, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n.link(from, to))
}

// Shape sets the shape of the direction from one host to another, for what is
// sent from now on.
func (n *Net) Shape(from, to string, s Shape) {
	n.change(from, to, func(l *link) { l.shape, l.shaped = s, true })
}

// Unshape sets the direction's shape to the default again.
func (n *Net) Unshape(from, to string) {
	n.change(from, to, func(l *link) { l.shape, l.shaped = n.byDefault, false })
}

// Cut stops all traffic from one host to another. The other direction is cut
// separately.
func (n *Net) Cut(from, to string) { n.change(from, to, func(l *link) { l.cut = true }) }

// Heal ends a cut. What was sent during the cut arrives when it is sent again.
func (n *Net) Heal(from, to string) { n.change(from, to, func(l *link) { l.cut = false }) }

// Reset resets both ends of the connections between two hosts.
func (n *Net) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.between(a, b) {
		c.reset()
	}
}

// HalfOpen ends the connections between two hosts at b only. Nothing is sent to
// a, which learns of it when it writes and b's kernel answers with a reset.
func (n *Net) HalfOpen(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.between(a, b) {
		if c.host == b {
			c.reset()
		}
	}
}

// LoseNext makes the next write from one host to another break its connection
// instead of being sent: the request was executed, and its answer is lost.
func (n *Net) LoseNext(from, to string) { n.change(from, to, func(l *link) { l.loseNext = true }) }

// between returns both ends of the connections between two hosts. Net.mu is
// held.
func (n *Net) between(a, b string) []*conn {
	var all []*conn
	for _, c := range n.conns {
		if c.host == a && c.peer == b || c.host == b && c.peer == a {
			all = append(all, c)
		}
	}
	return all
}

// Kill ends the process of a host as kill -9 does: the kernel closes its
// listeners and sends a FIN on each of its connections. What a frozen process
// had not written yet is never written.
func (n *Net) Kill(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.of(name) {
		c.out.held = nil
	}
	n.thaw(name)
	n.hostOf(name).kills++
	for _, l := range n.listenersOf(name) {
		for _, c := range l.end() {
			c.end()
		}
	}
	for _, c := range n.of(name) {
		c.end()
	}
	n.hostOf(name).cpu.reset()
}

// ClosePort makes a host's kernel refuse dials until OpenPort. Connections stay.
func (n *Net) ClosePort(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostOf(name).closed = true
}

// OpenPort ends ClosePort.
func (n *Net) OpenPort(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostOf(name).closed = false
}

// Pause suspends a host's process as SIGSTOP does, as far as other hosts can
// observe it.
func (n *Net) Pause(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hostOf(name)
	if !h.frozen {
		h.frozen, h.thawed = true, make(chan struct{})
	}
}

// Resume resumes a paused process: what it wrote meanwhile is sent now.
func (n *Net) Resume(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thaw(name)
}

// thaw resumes a frozen process. Net.mu is held.
func (n *Net) thaw(name string) {
	h := n.hostOf(name)
	if !h.frozen {
		return
	}
	h.frozen = false
	close(h.thawed)
	h.thawed, h.waiting = nil, 0
	for _, c := range n.of(name) {
		for _, s := range c.out.held {
			c.out.send(s.data, s.what)
		}
		c.out.held = nil
		c.in.cond.Broadcast()
	}
	for _, l := range n.listenersOf(name) {
		l.cond.Broadcast()
	}
	h.cpu.next()
}

// Awake returns a channel that is closed when the frozen host is thawed; a
// frozen process waits for it before it acts. Awake returns nil if the host is
// not frozen.
func (n *Net) Awake(name string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hostOf(name).thawed
}

// of returns a host's ends of connections, in the order in which they were
// made. Net.mu is held.
func (n *Net) of(name string) []*conn {
	var all []*conn
	for _, c := range n.conns {
		if c.host == name {
			all = append(all, c)
		}
	}
	return all
}
