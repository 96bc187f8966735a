package main

// guard is one place in the cluster's code that keeps an invariant, and the same
// place without it. Was must occur exactly once in the file.
type guard struct {
	name, file string
	was, is    string
	story      string // that is known to catch it soonest, if any
}

// guards are what the storms and the stories have to miss when it is gone.
var guards = []guard{
	{name: "renewal without owner and term", file: "sql/lock/renew.sql",
		was: "AND owner = ? AND term = ? AND term_duration = ?", is: "AND ? <> '' AND ? >= 0 AND ? >= 0", story: "f03"},
	{name: "win without the row as read", file: "sql/lock/win_expired.sql",
		was: "AND owner = ? AND term = ? AND nonce = ?", is: "AND ? <> 'x' AND ? >= 0 AND ? <> 'x'", story: "f13"},
	{name: "write without the lock row", file: "sql/state/write.sql",
		was: "AND l.owner = ? AND l.term = ?", is: "AND ? <> '' AND ? >= 0", story: "f04"},
	{name: "write whatever was written since", file: "sql/state/write.sql",
		was: "s.kind = ? AND s.term = ? AND s.seq = ?", is: "s.kind = ? AND ? >= 0 AND ? >= 0", story: "f04"},
	{name: "seal without the lock row", file: "sql/state/seal.sql",
		was: "AND l.owner = ? AND l.term = ?", is: "AND ? <> '' AND ? >= 0", story: "f04"},
	{name: "trust without end", file: "elector/leadership.go",
		was: "return l.ended == nil && time.Now().Before(l.until) }", is: "return l.ended == nil }", story: "f05"},
	{name: "commands of older terms are obeyed", file: "wire/fence.go",
		was: "if term < highest {", is: "if term+1000 < highest {", story: "f03"},
	{name: "older tables are taken", file: "wire/view.go",
		was: "return c > 0\n", is: "return c != 0\n", story: "f23"},
	{name: "reads while it hears the sessions", file: "data/replica.go",
		was: "case r.state == slot.Migrating && !writes:", is: "case r.state == slot.Migrating && !writes && r.store == nil:", story: "f18"},
	{name: "writes at another epoch", file: "data/replica.go",
		was: "case r.epoch != epoch:", is: "case r.epoch != epoch && !writes:", story: "f20"},
	{name: "finish goes on serving", file: "data/service.go",
		was: "\tr.state = slot.Finished\n", is: "", story: "f20"},
	{name: "serving without a word of the sessions", file: "data/migrate.go",
		was: "if !m.heard[n] {\n\t\t\tout = append(out, n)", is: "if !m.heard[n] && n.IsZero() {\n\t\t\tout = append(out, n)", story: "f18"},
	{name: "a copy of a lower version replaces", file: "data/store.go",
		was: "case at >= 0 && r.copies[at].version >= c.version:", is: "case at >= 0 && r.copies[at].version == c.version:", story: "f20"},
	{name: "a removal takes newer versions", file: "data/store.go",
		was: "if c.version > version || c.withdrawn && r.hides(c.version) {", is: "if c.withdrawn && r.hides(c.version) {", story: "f20"},
	{name: "a tombstone goes though it hides", file: "data/store.go",
		was: "if c.version > version || c.withdrawn && r.hides(c.version) {", is: "if c.version > version {", story: "f19"},
	{name: "a removal shows what is older", file: "data/store.go",
		was: "\tif r.hides(c.version) {\n\t\ts.put(", is: "\tif r.hides(c.version) && len(r.copies) > 9 {\n\t\ts.put(", story: "mover-that-dies"},
	{name: "the counter begins where it was", file: "data/store.go",
		was: "s.counter = max(s.counter, floor) + 1\n\tfor", is: "s.counter = floor\n\tfor", story: "f16"},
	{name: "an older write overtakes", file: "data/service.go",
		was: "if number < r.numbers[session] {", is: "if number < r.numbers[session] && number == 0 {", story: "f20"},
	{name: "an answer to a diff wins over what was written since", file: "data/merge.go",
		was: "return s.touched[key] > f.since }", is: "return s.touched[key] > f.since && f.since > 1<<62 }", story: "f20"},
	{name: "a lower leader epoch is adopted", file: "session/fence.go",
		was: "case c < 0:\n\t\treturn false, false", is: "case c < 0 && f.slot < 0:\n\t\treturn false, false", story: "f17"},
	{name: "answers of another epoch are counted", file: "session/fence.go",
		was: "if row.epoch != epoch {", is: "if row.epoch != epoch && row.slot < 0 {", story: "f17"},
	{name: "pushes are never held", file: "session/guard.go",
		was: "if !g.on || !now.Before(m.until) || s.version >= m.below {", is: "if m.below >= 0 {", story: "f18"},
	{name: "older versions reach the application", file: "client/subscription.go",
		was: "if s.closed || s.hash != 0 && d.GetVersion() <= s.seen.Version {", is: "if s.closed {", story: "f19"},
	{name: "forbidden nodes are given slots", file: "slot/arrange.go",
		was: "a.forbidden[name] = true", is: "a.forbidden[name] = false", story: "f20"},
}
