package simulated

import (
	"net"
	"regexp"
	"strconv"
	"strings"

	"conclave"
	"conclave/internal/trace"
)

// interceptStatement is the Around of devdb.Config. It claims when a meta's
// statement arrives at the database and when it was executed, and lets a
// scenario hold it in between: MySQL executes a statement even if its client
// has died in the meantime, and may wait for a row lock for any time. It
// returns nil for statements that change neither the lock row nor the leader's
// rows.
func (c *Cluster) interceptStatement(from net.Addr, query string) (done func(changed uint64, err error)) {
	of := subject(query)
	if of == "" || c.gate == nil {
		return nil
	}
	host, _, _ := strings.Cut(from.String(), ":")
	claim := trace.Claim{Node: conclave.NodeID{Name: host}, Kind: trace.Landing, Subject: of}
	if m := rows.FindAllStringSubmatch(query, -1); len(m) > 0 && (of == "write" || of == "seal") {
		last := m[len(m)-1] // the body, which precedes it, may contain the same text
		claim.Epoch.Term, _ = strconv.ParseUint(last[1], 10, 64)
		claim.Epoch.Seq, _ = strconv.ParseUint(last[2], 10, 64)
		claim.Key = last[3]
	}
	switch of {
	case "win":
		if m := won.FindStringSubmatch(query); m != nil {
			seen, _ := strconv.ParseUint(m[1], 10, 64)
			read, _ := strconv.ParseUint(m[2], 10, 64)
			claim.Term = max(seen, read) + 1
		}
	case "write", "seal":
		c.gate.Sink(claim)
	}
	return func(changed uint64, err error) {
		claim.Kind, claim.Count, claim.Err = trace.Landed, int(changed), err
		c.gate.Sink(claim)
	}
}

// rows matches the epoch that a statement writes to the leader's rows, and the
// kind of the row if the statement changes only one.
var rows = regexp.MustCompile(`s\.term = (\d+), s\.seq = (\d+), s\.nonce = '[^']*', s\.gmt_modified = [^\n]*\nWHERE [^\n]*?(?:s\.kind = '(\w+)'|s\.term < )`)

// won matches the two numbers that determine a win's term, which is one above
// their maximum: the highest term that receivers have seen, and the row's term
// as read, which the statement requires.
var won = regexp.MustCompile(`term = GREATEST\(term, (\d+)\) \+ 1, (?s:.*)\n  AND owner = '[^']*' AND term = (\d+) AND nonce = `)

// subject returns what a statement does to the lock row ("win", "resign") or to
// the leader's rows ("write", "seal"), or "" for any other statement.
func subject(query string) string {
	set, ok := strings.CutPrefix(query, "UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)\nSET ")
	switch {
	case ok && strings.HasPrefix(set, "owner = '', "):
		return "resign"
	case ok && strings.HasPrefix(set, "owner = "):
		return "win"
	case ok:
		return ""
	}
	if set, ok = strings.CutPrefix(query, "UPDATE distribute_lock l\nJOIN cluster_state s ON s.data_center = l.data_center AND s.lock_name = l.lock_name\nSET "); !ok {
		return ""
	}
	if strings.HasPrefix(set, "s.body = ") {
		return "write"
	}
	return "seal"
}

// freeStatements releases the statements that are held at the database, before
// the database is stopped.
func (c *Cluster) freeStatements() {
	for _, host := range c.hosts() {
		if c.gate != nil && strings.HasPrefix(host, "meta-") {
			c.gate.Release(host, trace.Landing)
		}
	}
}
