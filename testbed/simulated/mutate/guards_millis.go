package main

// What shortens the moments without a leader and without a data node that serves a
// slot.
var millisGuards = []guard{
	{name: "every candidate competes at once for a resigned term", test: unit{"./elector", "TestResigned_CandidateInAQueueLeavesTheTermToThoseBeforeIt"}, patch: patch{
		"elector/observe.go", "\t\tat = at.Add(queueTime)\n", ""}},
	{name: "Lead waits for the record", test: unit{"./elector", "TestLead_DoesNotWaitForTheRecord"}, patch: patch{
		"elector/leadership.go", "recordFirst := l.term.Previous.IsZero()", "recordFirst := l.term.Number > 0"}},
	{name: "a record that failed is repeated before the first renewal", test: unit{"./elector", "TestRecord_FailureIsRepeatedAfterTheFirstRenewal"}, patch: patch{
		"elector/leadership.go", "if !recordFirst {", "if l != nil {"}},
	{name: "a table follows while slots are handed over", test: unit{"./meta", "TestHandOversUntil_SuccessorsServeOrALeaderIsDead"}, patch: patch{
		"meta/arrange.go", "\tif len(left) == 0 {\n", "\tif len(left) >= 0 {\n"}},
	{name: "the slots of a dead leader wait for hand-overs", test: unit{"./meta", "TestHandOversUntil_SuccessorsServeOrALeaderIsDead"}, patch: patch{
		"meta/arrange.go", "\t\tif !slices.Contains(in.Live, row.Leader) {\n\t\t\treturn time.Time{}\n", "\t\tif !slices.Contains(in.Live, row.Leader) {\n\t\t\tcontinue\n"}},
	{name: "a table that is on its way is fetched from a peer", test: unit{"./meta/metaclient", "TestBehind_FetchesNothingThatTheLeaderSends"}, patch: patch{
		"meta/metaclient/fetch.go", "\t\tif c.arrives(ctx, table) {\n", "\t\tif c.arrives(ctx, table) && ctx.Err() != nil {\n"}},
	{name: "a table is answered with reports on all slots", test: unit{"./meta/metaclient", "TestBehind_FetchesTheStateOfThePeer"}, patch: patch{
		"meta/metaclient/join.go", "next, inTime = report{}, false", "next, inTime = c.report(ctx)"}},
	{name: "each Poke has a report of its own", test: unit{"./meta/metaclient", "TestPoke_ReportsAreAPauseApart"}, patch: patch{
		"meta/metaclient/join.go", "pause.Reset(time.Until(reported.Add(reportPause)))", "pause.Reset(time.Until(reported.Add(-reportPause)))"}},
	{name: "sessions receive a table that begins hand-overs at once", test: unit{"./meta", "TestBeginsHandOvers_OnlyTheTableThatSwitchesASlot"}, patch: patch{
		"meta/deltas.go", "if row.Phase == slot.Switching && (", "if row.ID < 0 && ("}},
}
