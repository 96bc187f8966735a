package main

// The guards that keep load, and delays of the one who judges, from being taken
// for the death of others (docs/adr/0071).
var livenessGuards = []guard{
	{name: "a mass of clients is declared dead at once", test: unit{"./session", "TestLeases_MassDeathIsDeclaredALeaseLater"}, patch: patch{
		"session/leases.go", "if mass && clients > 1 {", "if mass && clients < 0 {"}},
	{name: "a mass death is put off for ever", test: unit{"./session", "TestLeases_MassDeathIsDeclaredALeaseLater"}, patch: patch{
		"session/clients.go", "if b.expected() || b.seen || b.again {", "if b.expected() || b.seen {"}},
	{name: "one client is a mass", test: unit{"./session", "TestLeases_OneClientIsRemovedAtTheEndOfItsLease"}, patch: patch{
		"session/leases.go", "if mass && clients > 1 {", "if mass && clients > 0 {"}},
	{name: "clients that were asked to move are put back", test: unit{"./session", "TestLeases_ExpectedEndsAreNoMassDeath"}, patch: patch{
		"session/clients.go", "if b.expected() || b.seen || b.again {", "if b.seen || b.again {"}},
	{name: "Close waits for a welcome", test: unit{"./client", "TestClose_EndsAtOnceWhileASessionMakesItWait"}, patch: patch{
		"client/connect.go", "\tdefer context.AfterFunc(c.closing, cancel)()\n", ""}},
	{name: "beats wait for their report", test: unit{"./meta/metaclient", "TestRun_BeatsDoNotWaitForTheReport"}, patch: patch{
		"meta/metaclient/join.go", "return c.reporter.next(ctx, c.Beat/reportLimit)", "return c.reporter.next(ctx, 1000*c.Beat)"}},
	{name: "a report that came late is not sent", test: unit{"./meta/metaclient", "TestRun_BeatsDoNotWaitForTheReport"}, patch: patch{
		"meta/metaclient/join.go", "made.report, c.reporter.received(made)", "made.report, !c.reporter.received(made)"}},
	{name: "a node that makes no report for ever stays a member", test: unit{"./meta/metaclient", "TestRun_NodeThatMakesNoReportForANodeLeaseIsSilent"}, patch: patch{
		"meta/metaclient/join.go", "return !overdue", "return true"}},
	{name: "a report of an earlier stream is sent to a new leader", test: unit{"./meta/metaclient", "TestRun_NewLeaderIsSentNoReportOfAnEarlierStream"}, patch: patch{
		"meta/metaclient/report.go", "return m.asked >= r.first", "return true"}},
	{name: "a beat without a report clears what was reported", test: unit{"./meta", "TestRoster_BeatWithoutReportsKeepsThem"}, patch: patch{
		"meta/members.go", "if !m.GetAllReports() {", "if m.GetAllReports() && false {"}},
	{name: "an older Wake cancels a resignation", test: unit{"./elector", "TestResigned_RepeatedAndOlderOnesChangeNothing"}, patch: patch{
		"elector/observe.go", "case term < s.last.Number, pending && term < s.resigned:", "case term == 0:"}},
	{name: "a repeated Wake puts a resignation off", test: unit{"./elector", "TestResigned_RepeatedAndOlderOnesChangeNothing"}, patch: patch{
		"elector/observe.go", "at = earlier(at, s.resignedDue)", ""}},
	{name: "a leader that was suspended declares its members dead", test: unit{"./meta", "TestRoster_OwnLatenessIsNoSilence"}, patch: patch{
		"meta/members.go", "\tr.leases.Delay(late)\n", "\tr.leases.Delay(0)\n"}},
	{name: "a leader that was suspended takes itself for cut off", test: unit{"./meta", "TestRoster_OwnLatenessIsNoSilence"}, patch: patch{
		"meta/members.go", "\tr.lastBeat = r.lastBeat.Add(late)\n", ""}},
	{name: "a beat that is read before the tick renews for too long", test: unit{"./meta", "TestRoster_BeatAfterAPauseRenewsForOneLease"}, patch: patch{
		"meta/members.go", "\tr.catchUp(at)\n", ""}},
	{name: "lateness is counted twice", test: unit{"./lease", "TestLateness_IsTakenOnce"}, patch: patch{
		"lease/lateness.go", "\tl.due = l.due.Add(late)\n", ""}},
	{name: "a session that is late ends leases", test: unit{"./session", "TestLeases_OwnLatenessDoesNotCount"}, patch: patch{
		"session/clients.go", "c.broken[i].until = b.until.Add(late)", "c.broken[i].until = b.until.Add(0)"}},
	{name: "a data node that was suspended counts a session's grace", test: unit{"./data", "TestOwners_OwnLatenessIsNoAbsence"}, patch: patch{
		"data/owners.go", "*since = since.Add(late)", "*since = since.Add(0)"}},
	{name: "what began while a data node was late counts from the future", test: unit{"./data", "TestOwners_WhatBeganWhileLateCountsFromNow"}, patch: patch{
		"data/owners.go", "since.After(now) {", "since.After(now) && late == 0 {"}},
	{name: "a receiver that is late takes its peer for silent", test: unit{"./lease", "TestSilence_OwnLatenessDoesNotCount"}, patch: patch{
		"lease/silence.go", "s.last = s.last.Add(s.lateness.Take(now))", "s.lateness.Take(now)"}},
}
