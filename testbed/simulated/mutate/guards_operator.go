package main

// The guards of what an operator does: drains of the last node, actions after
// which the cluster would not serve, and the announcement that the cluster
// stops.
var operatorGuards = []guard{
	{name: "a session that takes clients is reported with the next beat", test: unit{"./session", "TestStart_OpenSessionIsReportedAtOnce"}, patch: patch{
		"session/server.go", "\ts.drain.open()\n\ts.meta.Poke()", "\ts.drain.open()\n"}},
	{name: "the last session is drained", by: on("the-last-session-is-not-drained", "acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestDrain_OfTheLastSessionIsRefused"}, patch: patch{
		"meta/roster.go", "n.stream != nil && n.ready && !n.draining && !forbidden(other)", "n.stream != nil"}},
	{name: "a drained session that is the last one refuses clients", by: on("drained-session-is-the-last"), test: unit{"./session", "TestDrain_OfTheSessionThatIsLeftWaits"}, patch: patch{
		"session/drain.go", "case others || d.closing:", "case others || leaves:"}},
	{name: "every session is drained away", by: on("the-last-session-is-not-drained", "drained-session-is-the-last"), patch: patch{
		"meta/roster.go", "n.stream != nil && n.ready && !n.draining && !forbidden(other)", "n.stream != nil"}, more: []patch{{
		"session/drain.go", "case others || d.closing:", "case others || leaves:"}}},
	{name: "a stop of the last session does not wait", test: unit{"./session", "TestStop_OfTheLastSessionGoesOnWhenAnotherComes"}, patch: patch{
		"session/stop.go", "case !refused:\n", "case !refused || first:\n"}},
	{name: "a client that is asked to move forgets its list", test: unit{"./session", "TestDrain_OfTheSessionThatIsLeftWaits"}, patch: patch{
		"client/connect.go", "\tif s.old == nil {\n\t\ts.c.mu.Lock()", "\tif s.old == nil || true {\n\t\ts.c.mu.Lock()"}},
	{name: "the last candidate quits", by: on("all-candidates-are-asked-to-quit"), test: unit{"./meta", "TestElectionQuit_OfTheLastCandidateIsRefusedUnlessForced"}, patch: patch{
		"meta/effects.go", "if !a.otherCandidate(name) {\n\t\treturn unsafe", "if name == \"\" {\n\t\treturn unsafe"}},
	{name: "a meta that was granted to quit counts as a candidate", test: unit{"./meta", "TestElectionQuit_LeavesACandidate"}, patch: patch{
		"meta/observers.go", "l.arranger.quits[id] = true", "delete(l.arranger.quits, id)"}},
	{name: "settings that end the service are taken", by: on("acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestSwitches_ThatEndTheServiceAreRefusedUnlessForced"}, patch: patch{
		"meta/effects.go", "case e.refusal != nil && !opts.force:", "case e.refusal != nil && e.refusal.Code != wire.CodeUnsafe && !opts.force:"}},
	{name: "every data node is forbidden", by: on("acts-that-end-the-service-are-refused"), test: unit{"./meta", "TestForbid_OfEveryDataNodeIsRefusedUnlessForced"}, patch: patch{
		"meta/effects.go", "if n.Name != except && !a.black.Has(n.Name) {", "if n.Name != except {"}},
	{name: "a command to a new leader does not wait for its node", test: unit{"./meta", "TestMember_OfYoungTermIsWaitedFor"}, patch: patch{
		"meta/admin.go", "for last := false; ; {", "for last := true; ; {"}},
	{name: "an announced stop never ends", test: unit{"./session", "TestClusterStops_OnlyWhileTheAnnouncementIsInForce"}, patch: patch{
		"wire/stopping.go", "return max(0, a.lasts-time.Since(v.announced)), true", "return a.lasts + 0*time.Since(v.announced), true"}},
	{name: "what was announced to one node never ends", by: on("stopped-after-an-announcement"), test: unit{"./data", "TestStop_AnnouncementExpires"}, patch: patch{
		"meta/metaclient/stopping.go", "s.set(time.Now().Add(lasts))", "s.set(time.Now().Add(1000 * lasts))"}},
	{name: "the leader keeps the record of an announced stop", test: unit{"./meta", "TestStopping_IsRecordedAndEnds"}, patch: patch{
		"meta/stopping.go", "case left > 0:\n\t\treturn time.Now().Add(left), nil", "case left >= 0:\n\t\treturn time.Time{}, nil"}},
	{name: "a stop announced to the leader never ends", by: on("storm@71"), test: unit{"./meta", "TestStopping_IsRecordedAndEnds"}, patch: patch{
		"wire/stopping.go", "return max(0, a.lasts-time.Since(v.announced)), true", "return a.lasts + 0*time.Since(v.announced), true"}, more: []patch{{
		"meta/stopping.go", "case left > 0:\n\t\treturn time.Now().Add(left), nil", "case left >= 0:\n\t\treturn time.Time{}, nil"}}},
	{name: "an announcement to another incarnation is taken", test: unit{"./data", "TestStop_OfClusterHandsNothingOver"}, patch: patch{
		"meta/metaclient/stopping.go", "case in.Incarnation != s.Node.Incarnation:", "case in.Incarnation == s.Node.Name:"}},
}
