package main

// The guards of what happens while sessions are dead or suspended.
var sessionGuards = []guard{
	{name: "an outage of all sessions counts against their clients", test: unit{"./data", "TestOwners_OutageOfAllSessionsRemovesNothing"}, by: on("all-sessions-are-killed", "all-sessions-are-killed@2", "all-sessions-are-frozen"), patch: patch{
		"data/sweep.go", "s.owners.sweep(copies, len(living) == 0 || s.leaderSilent(), now)", "s.owners.sweep(copies, s.leaderSilent(), now)"}},
	{name: "leases end while their session is suspended", test: unit{"./session", "TestSuspendedSession_KeepsClientsThatHaveNoOther"}, by: on("all-sessions-are-frozen", "all-sessions-are-frozen@2"), patch: patch{
		"session/leases.go", "if time.Since(now) > stalled {", "if time.Since(now) > 1000*stalled {"}},
	{name: "leases are not renewed when their session resumes", by: on("all-sessions-are-frozen", "all-sessions-are-frozen@2", "all-sessions-are-frozen@3"), patch: patch{
		"session/leases.go", "now.Sub(last) > stalled {", "now.Sub(last) > 1000*stalled {"}},
	{name: "a slot without a copy is served unmarked", test: unit{"./data", "TestMarks_GrantWithoutCopyIsMarked"}, by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2"), patch: patch{
		"data/migrate.go", "case m.r.copyEpoch.IsZero():\n\t\treturn true", "case m.r.copyEpoch.IsZero():\n\t\treturn owners.anyInGrace()"}},
	{name: "marks end while no session lives", test: unit{"./data", "TestOwners_OutageOfAllSessionsKeepsMarks"}, by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2"), patch: patch{
		"data/sweep.go", "if len(living) == 0 && r.store != nil && r.store.Marked(now) > 0 {", "if len(living) == 0 && r.id < 0 {"}},
	{name: "a session pushes what has come back so far", test: unit{"./session/registry", "TestGuardHoldsOnlyUnexplainedShrinking"}, by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2", "power-cut-of-data-and-sessions@3"), patch: patch{
		"session/registry/guard.go", "case now.Before(m.incomplete) && s.exceeds(d, m.withdrawn):", "case m.until.IsZero() && s.exceeds(d, m.withdrawn):"}},
	{name: "lists are compared by length", test: unit{"./session/registry", "TestGuardHoldsOnlyUnexplainedShrinking"}, by: on("another-registers-while-they-are-back"), patch: patch{
		"session/registry/guard.go", "if len(s.publishers) == 0 {", "if len(s.publishers) >= 0 {"}},
	{name: "registrations of broken connections stay", test: unit{"./session", "TestClientDiesAndClientCloses"}, by: on("storm@1"), patch: patch{
		"session/clients.go", "if leaves > 0 {", "if leaves < 0 {"}},
	{name: "an end that was seen is silence", test: unit{"./session", "TestClientDiesAndClientCloses"}, by: on("storm@12"), patch: patch{
		"session/clients.go", "if b.seen = conn.closed && !b.expected(); b.seen {", "if b.seen = conn.closed && b.expected(); b.seen {"}},
}
