package sim

import (
	"net"
	"regexp"
	"strconv"
	"strings"

	"conclave"
	"conclave/internal/trace"
)

// landing is what the database says of a meta's statement, and where one is held
// that is under way: MySQL goes on with a statement whose client is dead, or that
// waits for a row, and nobody knows for how long.
func (c *Cluster) landing(from net.Addr, query string) (done func(changed uint64, err error)) {
	of := subject(query)
	if of == "" || c.gate == nil {
		return nil
	}
	host, _, _ := strings.Cut(from.String(), ":")
	said := trace.Claim{Node: conclave.NodeID{Name: host}, Kind: trace.Landing, Subject: of}
	if m := rows.FindAllStringSubmatch(query, -1); len(m) > 0 && (of == "write" || of == "seal") {
		last := m[len(m)-1] // the body stands before
		said.Epoch.Term, _ = strconv.ParseUint(last[1], 10, 64)
		said.Epoch.Seq, _ = strconv.ParseUint(last[2], 10, 64)
		said.Key = last[3]
	}
	switch of {
	case "win":
		if m := won.FindStringSubmatch(query); m != nil {
			floor, _ := strconv.ParseUint(m[1], 10, 64)
			read, _ := strconv.ParseUint(m[2], 10, 64)
			said.Term = max(floor, read) + 1
		}
	case "write", "seal":
		c.gate.Sink(said)
	}
	return func(changed uint64, err error) {
		said.Kind, said.Count, said.Err = trace.Landed, int(changed), err
		c.gate.Sink(said)
	}
}

// rows finds the epoch that a statement gives to the leader's rows, and which row
// it is about if it is about one.
var rows = regexp.MustCompile(`s\.term = (\d+), s\.seq = (\d+), s\.nonce = '[^']*', s\.gmt_modified = [^\n]*\nWHERE [^\n]*?(?:s\.kind = '(\w+)'|s\.term < )`)

// won finds the two numbers that a win's term is one above: what receivers have
// seen, and the row's term as read, without which nothing is won.
var won = regexp.MustCompile(`term = GREATEST\(term, (\d+)\) \+ 1, (?s:.*)\n  AND owner = '[^']*' AND term = (\d+) AND nonce = `)

// subject says what a statement does to the rows of the election and of the
// leader; "" for all others.
func subject(query string) string {
	set, is := strings.CutPrefix(query, "UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)\nSET ")
	switch {
	case is && strings.HasPrefix(set, "owner = '', "):
		return "resign"
	case is && strings.HasPrefix(set, "owner = "):
		return "win"
	case is:
		return ""
	}
	if set, is = strings.CutPrefix(query, "UPDATE distribute_lock l\nJOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name\nSET "); !is {
		return ""
	}
	if strings.HasPrefix(set, "s.body = ") {
		return "write"
	}
	return "seal"
}

// freeStatements lets go of the statements that are held at the database, which
// is about to end.
func (c *Cluster) freeStatements() {
	for _, host := range c.hosts() {
		if c.gate != nil && strings.HasPrefix(host, "meta-") {
			c.gate.Release(host, trace.Landing)
		}
	}
}
