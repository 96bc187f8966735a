package devdb

import (
	"regexp"
	"strings"
)

// kind is what the gate and the file must know of a statement before the engine sees it. What is not known for a
// reader is taken for a writer: that costs a needless write to the file, never a lost row.
type kind int

const (
	reads   kind = iota // changes no table: SELECT, SHOW, SET, BEGIN, COMMIT, ...
	changes             // changes rows, if it says so: INSERT, UPDATE, DELETE, REPLACE
	shapes              // may change anything: CREATE, ALTER, CALL, EXECUTE, whatever we do not know
	kills               // KILL must get past a transaction that holds the gate
	refused             // what this server cannot keep its promises for
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
	// Not in the file, so gone after a restart: better not to have them at all.
	notKept = regexp.MustCompile(`(?i)^create\s+(?:or\s+replace\s+|definer\s*=\s*\S+\s+|algorithm\s*=\s*\w+\s+|sql\s+security\s+\w+\s+|temporary\s+)*(view|trigger|procedure|function|event|user|role)\b`)
	// They read and write files as the server's user, for anyone who can reach its port.
	touchesFiles = regexp.MustCompile(`(?i)\binto\s+(?:outfile|dumpfile)\b|\bload_file\s*\(`)
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
	case strings.Contains(strings.ToLower(query), "file") && touchesFiles.MatchString(query): // the first is quick
		return refused
	case !known:
		return shapes
	}
	return k
}

// mayWaitOutside: a reader that names no table has seen nothing that could go stale while it waits for a named lock.
func mayWaitOutside(k kind, query string) bool {
	return k == reads && !namesTable.MatchString(query)
}
