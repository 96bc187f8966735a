package devdb

import (
	"regexp"
	"strings"
)

// kind classifies a statement for the gate and the file before the engine
// parses it. A statement that is not known to be a read is treated as a write,
// which costs an unnecessary write to the file but never loses a row.
type kind int

const (
	reads   kind = iota // changes no table: SELECT, SHOW, SET, BEGIN, COMMIT, ...
	changes             // changes rows if it reports any: INSERT, UPDATE, DELETE, REPLACE
	shapes              // may change anything: CREATE, ALTER, CALL, EXECUTE, and unknown statements
	kills               // KILL, which must not wait for a transaction that holds the gate
	refused             // not supported with this server's guarantees
)

var keywords = map[string]kind{
	"select": reads, "show": reads, "describe": reads, "desc": reads, "explain": reads, "use": reads, "do": reads,
	"set": reads, "begin": reads, "start": reads, "commit": reads, "rollback": reads, "values": reads, "table": reads,
	"prepare": reads, "deallocate": reads, "unlock": reads,
	"insert": changes, "update": changes, "delete": changes, "replace": changes, "with": changes,
	"kill": kills,
	"lock": refused, "load": refused,
}

var (
	firstWord  = regexp.MustCompile(`^(?:[\s(;]|/\*(?s:.*?)\*/|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$))*([A-Za-z]+)`)
	namesTable = regexp.MustCompile(`(?i)\b(?:from|table|into)\b`)
	// Objects that are not stored in the file and would be lost by a restart.
	notKept = regexp.MustCompile(`(?i)^create\s+(?:or\s+replace\s+|definer\s*=\s*\S+\s+|algorithm\s*=\s*\w+\s+|sql\s+security\s+\w+\s+|temporary\s+)*(view|trigger|procedure|function|event|user|role)\b`)
)

func kindOf(query string) kind {
	at := firstWord.FindStringSubmatchIndex(query)
	if at == nil {
		return shapes
	}
	k, known := keywords[strings.ToLower(query[at[2]:at[3]])]
	switch {
	case !known && notKept.MatchString(query[at[2]:]):
		return refused
	case !known:
		return shapes
	}
	return k
}

// mayWaitOutside reports whether the statement may wait without the gate: a
// read that names no table has read nothing that could become stale.
func mayWaitOutside(k kind, query string) bool {
	return k == reads && !namesTable.MatchString(query)
}
