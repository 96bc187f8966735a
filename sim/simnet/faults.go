package simnet

// Default shapes every link that has no shape of its own.
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

// Shape shapes the direction from one host to another, for what is sent from now
// on.
func (n *Net) Shape(from, to string, s Shape) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(from, to)
	l.shape, l.shaped = s, true
}

// Unshape gives the direction its default back.
func (n *Net) Unshape(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(from, to)
	l.shape, l.shaped = n.byDefault, false
}

// Cut lets nothing pass from one host to another. The other direction is a cut of
// its own.
func (n *Net) Cut(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).cut = true
}

// Heal ends a cut. What was sent meanwhile arrives when it is sent again.
func (n *Net) Heal(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).cut = false
}

// Reset breaks the connections between two hosts, so that both ends know, and
// says how many there were.
func (n *Net) Reset(a, b string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	doomed := n.between(a, b)
	for _, c := range doomed {
		c.broken()
	}
	return len(doomed) / 2
}

// HalfOpen ends the connections between two hosts for b only: a is not told, and
// finds out when it writes and b's kernel knows no such connection. It says how
// many there were.
func (n *Net) HalfOpen(a, b string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, c := range n.between(a, b) {
		if c.host == b {
			c.broken()
			count++
		}
	}
	return count
}

// LoseNext breaks the connection on which the next bytes from one host to another
// are sent, instead of sending them: what was asked was done, and the answer is
// lost.
func (n *Net) LoseNext(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link(from, to).loseNext = true
}

// between is called with mu held: the ends of connections between two hosts.
func (n *Net) between(a, b string) []*conn {
	var all []*conn
	for _, c := range n.conns {
		if c.host == a && c.peer == b || c.host == b && c.peer == a {
			all = append(all, c)
		}
	}
	return all
}

// Kill ends everything of a host's process, as its kernel does: its listeners are
// gone, and the ends of its connections are on their way to the others. What a
// frozen process had not written yet is never written.
func (n *Net) Kill(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.of(name) {
		c.out.held = nil
	}
	n.thaw(name)
	n.hostOf(name).life++
	for _, l := range n.listenersOf(name) {
		for _, c := range l.end() {
			c.end(fin)
		}
	}
	for _, c := range n.of(name) {
		c.end(fin)
	}
}

// PowerOff ends a host and tells nobody: dials to it hear nothing, and the other
// ends of its connections stay as they are.
func (n *Net) PowerOff(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.of(name) {
		c.out.held, c.out.flight = nil, nil
	}
	n.thaw(name)
	n.hostOf(name).life++
	n.hostOf(name).down = true
	for _, l := range n.listenersOf(name) {
		for _, c := range l.end() {
			c.end(nothing)
		}
	}
	for _, c := range n.of(name) {
		c.end(nothing)
	}
}

// PowerOn lets the host's kernel answer again: it knows none of the old
// connections, and resets them as soon as something arrives for them.
func (n *Net) PowerOn(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostOf(name).down = false
}

// Refuse makes a host's kernel refuse dials until Accept. Connections stay.
func (n *Net) Refuse(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostOf(name).closed = true
}

// Accept ends Refuse.
func (n *Net) Accept(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hostOf(name).closed = false
}

// Freeze stops a host's process as SIGSTOP does, as far as others can see it.
func (n *Net) Freeze(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hostOf(name)
	if !h.frozen {
		h.frozen, h.thawed = true, make(chan struct{})
	}
}

// Thaw lets it go on: what it would have written leaves now.
func (n *Net) Thaw(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thaw(name)
}

// thaw is called with mu held.
func (n *Net) thaw(name string) {
	h := n.hostOf(name)
	if !h.frozen {
		return
	}
	h.frozen = false
	close(h.thawed)
	h.thawed, h.waiting = nil, 0
	for _, c := range n.of(name) {
		for _, piece := range c.out.held {
			c.out.send(piece.data, piece.what)
		}
		c.out.held = nil
		c.in.cond.Broadcast()
	}
	for _, l := range n.listenersOf(name) {
		l.cond.Broadcast()
	}
}

// Awake is closed when the host is not frozen (any more): what a process that
// stands still waits for before it acts. nil: it is not frozen.
func (n *Net) Awake(name string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hostOf(name).thawed
}

// of is called with mu held: a host's ends, in the order in which they were made.
func (n *Net) of(name string) []*conn {
	var all []*conn
	for _, c := range n.conns {
		if c.host == name {
			all = append(all, c)
		}
	}
	return all
}
