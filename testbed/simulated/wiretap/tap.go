package wiretap

import (
	"net"
	"strconv"

	"conclave/testbed/console/journal"
)

// Tap names what passes between all hosts. Its methods are not called by two
// goroutines at once.
type Tap struct {
	directions map[[2]string]*direction
	conns      int
}

// New returns a tap of a network that has no connections yet.
func New() *Tap { return &Tap{directions: map[[2]string]*direction{}} }

// direction is what one end of a connection sends.
type direction struct {
	conn   int
	client bool // it is the end that has dialled
	reader reader
}

// reader names the messages of one direction. It gets its bytes in order, cut
// anywhere.
type reader interface {
	read(data []byte, add func(Message))
}

// databasePort is the port of MySQL. On all others HTTP is spoken.
const databasePort = "3306"

// firstDialled is the first port that an end may have that has dialled.
const firstDialled = 32768

// Sent returns the messages in what one end of a connection writes, in order. A
// message that is longer than one write is in each write in which it has bytes.
func (t *Tap) Sent(from, to string, data []byte) []Message {
	d := t.directions[[2]string{from, to}]
	if d == nil {
		d = t.connect(from, to)
	}
	var out []Message
	d.reader.read(data, func(m Message) {
		m.Conn = d.conn
		for i := range out {
			if out[i].SameConversation(m) {
				out[i].Add(m)
				return
			}
		}
		out = append(out, m)
	})
	return out
}

// Ended returns the message with which a host ends a connection, and forgets what
// that host has sent on it.
func (t *Tap) Ended(from, to, how string) Message {
	m := Message{Kind: journal.Transport, Call: "connection", Details: []string{how}}
	for _, key := range [][2]string{{to, from}, {from, to}} { // a reset may answer what the other end sends
		if d := t.directions[key]; d != nil {
			m.Conn = d.conn
		}
	}
	delete(t.directions, [2]string{from, to})
	return m
}

// connect makes both directions of a connection and returns the first.
func (t *Tap) connect(from, to string) *direction {
	t.conns++
	here, there := &direction{conn: t.conns, client: dialled(from)}, &direction{conn: t.conns, client: dialled(to)}
	_, a, _ := net.SplitHostPort(from)
	_, b, _ := net.SplitHostPort(to)
	if a == databasePort || b == databasePort {
		shared := &statement{}
		here.reader, there.reader = &mysqlReader{client: here.client, last: shared}, &mysqlReader{client: there.client, last: shared}
	} else {
		shared := &calls{streams: map[uint32]*call{}}
		here.reader, there.reader = newHTTPReader(here.client, shared), newHTTPReader(there.client, shared)
	}
	t.directions[[2]string{from, to}], t.directions[[2]string{to, from}] = here, there
	return here
}

// dialled reports whether an end has the port of one that has dialled.
func dialled(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	n, err := strconv.Atoi(port)
	return err == nil && n >= firstDialled
}
