package wiretap

import (
	"encoding/binary"
	"strconv"
	"strings"

	"conclave/sql"
	"conclave/testbed/console/journal"
)

// statement is what the client of a connection asked last. Both directions know
// it.
type statement struct {
	name     string
	answered bool // the first packet of the answer has been read
	greeted  bool // the connection is set up
}

// mysqlReader reads the packets of one direction of a connection to the database.
type mysqlReader struct {
	client bool
	last   *statement

	rest []byte // of a packet that is not complete
}

const packetHead = 4

func (r *mysqlReader) read(data []byte, add func(Message)) {
	r.rest = append(r.rest, data...)
	for len(r.rest) >= packetHead {
		h := r.rest[:packetHead]
		end := packetHead + (int(h[0]) | int(h[1])<<8 | int(h[2])<<16)
		if len(r.rest) < end {
			return
		}
		m := r.packet(r.rest[packetHead:end])
		m.Bytes = end
		add(m)
		r.rest = r.rest[end:]
	}
}

// The first bytes of packets.
const (
	commandQuit  = 0x01
	commandQuery = 0x03
	commandPing  = 0x0e
	answerOK     = 0x00
	answerError  = 0xff
)

// packet returns the message that a packet is, or is a part of, without its size.
func (r *mysqlReader) packet(body []byte) Message {
	first := byte(answerOK)
	if len(body) > 0 {
		first = body[0]
	}
	if r.client {
		m := Message{Kind: journal.Request}
		switch {
		case !r.last.greeted:
			r.last.name, r.last.answered = "log in", false
		case first == commandQuery:
			r.last.name, r.last.answered = nameOf(string(body[1:])), false
		case first == commandPing:
			r.last.name, r.last.answered = "ping", false
		case first == commandQuit:
			r.last.name, r.last.answered = "quit", false
		}
		m.Call = "SQL " + r.last.name
		return m
	}
	m := Message{Kind: journal.Answer}
	switch {
	case r.last.name == "":
		m.Kind, m.Call = journal.Transport, "MySQL"
		m.Details = []string{"greeting"}
		return m
	case !r.last.answered:
		r.last.answered, r.last.greeted = true, true
		switch {
		case first == answerError && len(body) > 2:
			m.Details = []string{"error " + strconv.Itoa(int(binary.LittleEndian.Uint16(body[1:])))}
		case first == answerOK && r.last.name != "log in" && r.last.name != "ping" && len(body) > 1:
			m.Details = []string{strconv.Itoa(int(body[1])) + " changed"} // a length of one byte, up to 250
		}
	}
	m.Call = "SQL " + r.last.name
	return m
}

// known is a statement of package sql, cut at its parameters.
type known struct {
	name   string
	pieces []string
}

var statements = func() (all []known) {
	for _, s := range []struct{ name, text string }{
		{"look", sql.LockLook}, {"win vacant", sql.LockWinVacant}, {"win own", sql.LockWinOwn}, {"win expired", sql.LockWinExpired},
		{"win overdue", sql.LockWinOverdue}, {"win witness", sql.LockWinWitness}, {"renew", sql.LockRenew}, {"reacquire", sql.LockReacquire},
		{"resign", sql.LockResign}, {"take", sql.LockTake}, {"await", sql.LockAwait}, {"used", sql.LockUsed}, {"release", sql.LockRelease},
		{"binlog", sql.LockBinlog}, {"seed the lock", sql.LockSeed}, {"seed the state", sql.StateSeed}, {"read the state", sql.StateRead}, {"owner", sql.StateOwner},
		{"write", sql.StateWrite}, {"seal", sql.StateSeal}, {"record the election", sql.HistoryRecord}, {"list the elections", sql.HistoryList},
	} {
		all = append(all, known{s.name, strings.Split(s.text, "?")})
	}
	return all
}()

// nameOf returns the name of a statement, or its first words.
func nameOf(text string) string {
	best, most := "", 0
	for _, k := range statements {
		if n := k.matches(text); n > most {
			best, most = k.name, n
		}
	}
	if best != "" {
		return best
	}
	words := strings.Fields(text[:min(len(text), 200)])
	return strings.Join(words[:min(len(words), 3)], " ")
}

// matches returns how many bytes of the text are the statement's, outside of its
// parameters; 0: it is another one.
func (k known) matches(text string) (bytes int) {
	if !strings.HasPrefix(text, k.pieces[0]) {
		return 0
	}
	bytes, text = len(k.pieces[0]), text[len(k.pieces[0]):]
	for i, piece := range k.pieces[1:] {
		if i == len(k.pieces)-2 && piece == "" {
			return bytes
		}
		at := strings.Index(text, piece)
		if at < 0 {
			return 0
		}
		bytes, text = bytes+len(piece), text[at+len(piece):]
	}
	return bytes
}
