package main

// The guards of what an operator does: drains of the last node, actions after
// which the cluster would not serve, and the announcement that the cluster
// stops.
var operatorGuards = []guard{
	{name: "the last session is drained", by: on("the-last-session-is-not-drained", "acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestDrain_OfTheLastSessionIsRefused"}, patch: patch{
		"meta/roster.go", "n.takesClients() && !forbidden(other)", "n.member.Role == conclave.RoleSession && n.stream != nil"}},
	{name: "a drained session that is the last one refuses clients", by: on("drained-session-is-the-last"), test: unit{"./session", "TestDrain_OfTheSessionThatIsLeftWaits"}, patch: patch{
		"session/state.go", "case others || d.closing:", "case others || leaves:"}},
	{name: "every session is drained away", by: on("the-last-session-is-not-drained", "drained-session-is-the-last"), patch: patch{
		"meta/roster.go", "n.takesClients() && !forbidden(other)", "n.member.Role == conclave.RoleSession && n.stream != nil"}, more: []patch{{
		"session/state.go", "case others || d.closing:", "case others || leaves:"}}},
	{name: "the last candidate quits", by: on("all-candidates-are-asked-to-quit"), test: unit{"./meta", "TestElectionQuit_OfTheLastCandidateIsRefusedUnlessForced"}, patch: patch{
		"meta/effects.go", "if !a.otherCandidate(name) {\n\t\treturn unsafe", "if name == \"\" {\n\t\treturn unsafe"}},
	{name: "settings that end the service are taken", by: on("acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestSwitches_ThatEndTheServiceAreRefusedUnlessForced"}, patch: patch{
		"meta/admin.go", "case !o.force:", "case !o.force && e.refusal.Code != wire.CodeUnsafe:"}},
	{name: "every data node is forbidden", by: on("acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestForbid_OfEveryDataNodeIsRefusedUnlessForced"}, patch: patch{
		"meta/effects.go", "if n.Name != except && !a.black().Has(n.Name) {", "if n.Name != except {"}},
	{name: "what was announced to one node never ends", by: on("stopped-after-an-announcement"), test: unit{"./data", "TestStop_AnnouncementExpires"}, patch: patch{
		"meta/metaclient/stopping.go", "s.set(time.Now().Add(lasts))", "s.set(time.Now().Add(1000 * lasts))"}},
	{name: "a stop announced to the leader never ends", by: on("storm@71"), test: unit{"./meta", "TestStopping_IsRecordedAndEnds"}, patch: patch{
		"wire/state.go", "return max(0, a.lasts-time.Since(v.announced)), true", "return a.lasts + 0*time.Since(v.announced), true"}, more: []patch{{
		"meta/stopping.go", "case left > 0:\n\t\treturn time.Now().Add(left), nil", "case left >= 0:\n\t\treturn time.Time{}, nil"}}},
}
