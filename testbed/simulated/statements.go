package simulated

import (
	"net"
	"regexp"
	"strconv"
	"strings"

	"conclave"
	"conclave/internal/devdb"
	"conclave/internal/trace"
)

// interceptStatement is the Around of devdb.Config. It claims when a meta's
// statement arrives at the database and when it was executed, and lets a
// scenario hold it in between: MySQL executes a statement even if its client
// has died in the meantime, and may wait for a row lock for any time. It
// returns nil for statements that change neither the lock row nor the leader's
// rows, and the error of those that the database is told to refuse.
func (c *Cluster) interceptStatement(from net.Addr, query string) (done func(changed uint64, err error), refusal error) {
	of := subject(query)
	if err := c.refusal(of, query); err != nil {
		return nil, err
	}
	if of == "" || c.gate == nil {
		return nil, nil
	}
	claim := trace.Claim{Node: conclave.NodeID{Name: host(from.String())}, Kind: trace.Landing, Subject: of}
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
	}, nil
}

// refusal returns the error with which the database answers a statement with this
// subject, or nil if it executes it.
func (c *Cluster) refusal(of, query string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.refusals) == 0 {
		return nil
	}
	kinds := []string{"statements"}
	if strings.HasPrefix(query, "UPDATE ") || strings.HasPrefix(query, "INSERT ") {
		kinds = append(kinds, "writes")
	}
	switch {
	case strings.HasPrefix(query, lockRow):
		kinds = append(kinds, "elections")
	case of != "":
		kinds = append(kinds, "decisions")
		if m := rows.FindAllStringSubmatch(query, -1); len(m) > 0 {
			kinds = append(kinds, m[len(m)-1][3])
		}
	}
	for _, kind := range kinds {
		if number, refused := c.refusals[kind]; refused {
			return devdb.Refusal(number, "the scenario refuses "+kind)
		}
	}
	return nil
}

// lockRow begins every statement that changes the lock row alone.
const lockRow = "UPDATE distribute_lock FORCE INDEX (uk_data_center_lock_name)\nSET "

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
	set, ok := strings.CutPrefix(query, lockRow)
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

// guarded matches a write of the leader's rows (sql/state/write.sql) with its last line.
var guarded = regexp.MustCompile(`(?s)^(UPDATE distribute_lock l\n.*SET s\.body = .*)\s+AND l\.owner = '[^']*' AND l\.term = \d+$`)

// rewrite returns what the database executes for a query: after testbed.Unguard, a write
// without its last line.
func (c *Cluster) rewrite(query string) string {
	if !c.unguarded.Load() {
		return query
	}
	return guarded.ReplaceAllString(query, "$1")
}
