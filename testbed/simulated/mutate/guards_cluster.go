package main

// The guards of the cluster, by what they protect.
var clusterGuards = []guard{
	// The election, the leader's rows, and the receivers of its commands.
	{name: "renewal without owner and term", by: on("a-renewal-that-lands-late", "a-renewal-that-lands-late@2", "storm@1", "storm@2", "storm@3", "storm@4", "storm@5"), patch: patch{
		"sql/lock/renew.sql", "AND owner = ? AND term = ? AND term_duration = ?", "AND ? <> '' AND ? >= 0 AND ? >= 0"}},
	{name: "an expired lease is won whatever was read + an expired lease is won whatever the beat + an expired lease is won whatever the database's clock says", by: on("all-swap-at-once"), patch: patch{
		"sql/lock/win_expired.sql", "AND owner = ? AND term = ? AND nonce = ?", "AND ? <> 'x' AND ? >= 0 AND ? <> 'x'"}, more: []patch{{
		"sql/lock/win_expired.sql", "AND term_duration = ?", "AND ? >= 0"}, {
		"sql/lock/win_expired.sql", "AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000", ""}}},
	{name: "a vacant lock is won whatever was read + a lock is won as if it were vacant", by: on("all-swap-at-once"), patch: patch{
		"sql/lock/win_vacant.sql", "AND owner = ? AND term = ? AND nonce = ?", "AND ? <> 'x' AND ? >= 0 AND ? <> 'x'"}, more: []patch{{
		"sql/lock/win_vacant.sql", "AND (resigned = 1 OR owner = '')", ""}}},
	{name: "a lost answer is taken for a win + the witness of a term of another node is reacquired", by: on("all-swap-at-once", "f08"), patch: patch{
		"elector/termcas/win.go", "if now.nonce != w.nonce {", "if now.nonce == w.term.Leader.Name {"}, more: []patch{{
		"elector/termcas/renew.go", "err == nil && (r.owner != me.ID.String() || r.number != term)", "err == nil && r.number > 1<<62"}}},
	{name: "a late beat is a lost leader", by: on("a-late-beat-is-not-a-lost-leader"), patch: patch{
		"elector/termcas/win.go", "case observed >= r.lease && r.age >= r.lease:", "case r.age >= r.lease:"}},
	{name: "the leader's port is not asked", by: on("the-port-is-asked"), patch: patch{
		"elector/termcas/strategy.go", "if s.leaderConfirms(ctx, row) {", "if row.owner == \"\" {"}},
	{name: "a promised term is led", by: on("stopped-is-a-promise@3"), patch: patch{
		"elector/observe.go", "s.neverAgain = max(s.neverAgain, term)", "s.neverAgain = max(s.neverAgain, 0)"}},
	{name: "trust without end + trust's timer does nothing", by: on("f07"), patch: patch{
		"elector/elector.go", "if e.shared.stateAt(time.Now(), suspended) != Leading {", "if l := e.shared.lead; suspended || l == nil || l.ended != nil {"}, more: []patch{{
		"elector/leadership.go", "expired := !time.Now().Before(l.until)", "expired := l.until.IsZero()"}}},
	{name: "trust counts from the answer", by: on("slow-answers-stretch-no-lease", "slow-answers-stretch-no-lease@2", "slow-answers-stretch-no-lease@3", "slow-answers-stretch-no-lease@4"), test: test("./elector/tests", "TestLeading_EndsOnTimeWhenStoreHangs"), patch: patch{
		"elector/round.go", "trust(sent, e.cfg.Lease, e.cfg.Margin)", "trust(sent.Add(time.Since(sent)), e.cfg.Lease, e.cfg.Margin)"}},
	{name: "write without the lock row", by: on("a-write-that-lands-late", "a-write-that-lands-late@2"), test: test("./sql/tests", "TestWrite_AppliedOnlyUnderItsTerm"), patch: patch{
		"sql/state/write.sql", "AND l.owner = ? AND l.term = ?", "AND ? <> '' AND ? >= 0"}},
	{name: "write under an earlier term of its own", by: on("a-write-of-an-earlier-term-of-its-own"), patch: patch{
		"sql/state/write.sql", "AND l.owner = ? AND l.term = ?", "AND l.owner = ? AND ? >= 0"}},
	{name: "write whatever was written since", by: on("a-write-behind-its-own-successor", "a-write-behind-its-own-successor@2"), test: test("./sql/tests", "TestWrite_AppliedOnlyUnderItsTerm"), patch: patch{
		"sql/state/write.sql", "s.kind = ? AND s.term = ? AND s.seq = ?", "s.kind = ? AND ? >= 0 AND ? >= 0"}},
	{name: "published before it is written", by: on("f16"), patch: patch{
		"meta/rows.go", "\toutcome, err := a.settle(ctx, old, next)\n",
		"\tif err := a.decode(next); err != nil {\n\t\treturn err\n\t}\n\ta.publish()\n\toutcome, err := a.settle(ctx, old, next)\n"}},
	{name: "seal without the lock row", by: on("a-seal-that-lands-late", "a-seal-that-lands-late@2"), test: test("./sql/tests", "TestStatements_OfOldTermChangeNoRow"), patch: patch{
		"sql/state/seal.sql", "AND l.owner = ? AND l.term = ?", "AND ? <> '' AND ? >= 0"}},
	{name: "commands of older terms are obeyed", by: on("published-late"), patch: patch{
		"wire/fence.go", "admitted := term >= before", "admitted := term+before > 0"}},
	{name: "older tables are taken", by: on("f20", "tables-that-arrive-late"), patch: patch{
		"wire/view.go", "return c > 0\n", "return c != 0\n"}},
	{name: "forbidden nodes are given slots", by: on("f20"), patch: patch{
		"slot/arrange.go", "a.forbidden[name] = true", "a.forbidden[name] = false"}},
	{name: "a connection has the time of a statement", by: on("a-database-far-away"), patch: patch{
		"sql/open.go", "cmp.Or(o.Connect, 6*o.Deadline)", "cmp.Or(o.Connect, o.Deadline)"}},

	// Slots, registrations, and what subscribers receive.
	{name: "a slot is read while the sessions are asked", by: on("overtaken-answers", "overtaken-answers@2", "drained-over-slow-links", "taken-for-dead"), patch: patch{
		"data/replica.go", "case r.state == slot.Migrating && !writes:", "case r.state == slot.Migrating && !writes && r.store == nil:"}},
	{name: "writes at another epoch", by: on("written-at-another-epoch"), test: test("./data", "TestWrite_RefusedRequestChangesNothing"), patch: patch{
		"data/replica.go", "case r.epoch != epoch:", "case r.epoch != epoch && !writes:"}},
	{name: "finish goes on serving", by: on("drained-over-slow-links", "f20"), patch: patch{
		"data/replica.go", "r.enter(slot.Finished, r.epoch)", "r.enter(slot.Serving, r.epoch)"}},
	{name: "a slot is served without the answers of the sessions", by: on("f18"), patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {\n\t\t\tout = append(out, n)", "if !m.answered[n] && n.IsZero() {\n\t\t\tout = append(out, n)"}},
	{name: "a silent source is given up though it lives", test: test("./data", "TestHandOver_SilentSourceIsAskedAgainForALostSession"), by: on("successor-misses-the-end", "successor-misses-the-end@2", "successor-misses-the-end@3"), patch: patch{
		"data/migrate.go", "if m.source.IsZero() || m.taken ||", "if m.source.IsZero() || m.phase == asking ||"}},
	{name: "a copy that is further stays where it is", test: test("./data", "TestCrash_FurthestCopyIsTaken"), by: on("the-furthest-copy-is-being-drained", "the-furthest-copy-is-being-drained@2", "storm@112"), patch: patch{
		"data/migrate.go", "len(m.holders) > 0 {", "len(m.holders) > 9 {"}},
	{name: "the successor of a dead source asks no other holder", test: test("./data", "TestHandOver_FurthestCopyReplacesASilentSource"), by: on("the-source-dies-and-a-follower-has-everything@4415", "storm@4415"), patch: patch{
		"data/migrate.go", "if m.again {", "if m.epoch.Term > 0 {"}},
	{name: "a session that cannot be dialled is waited for without end", test: test("./data", "TestGiveUp_MemberThatCannotBeDialled"), by: on("a-session-that-no-data-node-reaches", "a-session-whose-port-is-closed", "a-session-at-a-wrong-address"), patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {", "if !m.answered[n] {"}},
	{name: "a slot without a copy asks members only", test: test("./data", "TestLostSession_SlotWithoutCopyAsksIt"), by: on("cut-off-from-the-metas-alone", "storm@941"), patch: patch{
		"data/migrate.go", "if now.Before(s.lostUntil(m)) {", "if now.Before(s.lostUntil(m)) && m.r.id < 0 {"}},
	{name: "a session whose lease ran out is forgotten", test: test("./meta", "TestLostSession_IsPublishedUntilItIsAccountedFor"), by: on("cut-off-from-the-metas-alone", "storm@941"), patch: patch{
		"meta/roster.go", "if n.member.Role == conclave.RoleSession && !dead {", "if n.member.Role == conclave.RoleSession && !dead && now.IsZero() {"}},
	{name: "a new leader forgets the lost sessions", test: test("./meta", "TestLostSession_IsPublishedUntilItIsAccountedFor"), by: on("cut-off-from-the-metas-alone"), patch: patch{
		"meta/roster.go", "if r.nodes[m.Node.Name] == nil {\n\t\t\tr.absent", "if r.nodes[m.Node.Name] == nil && now.IsZero() {\n\t\t\tr.absent"}},
	{name: "a lower leader epoch is adopted", by: on("taken-for-dead"), patch: patch{
		"session/registry/slot.go", "case c < 0:\n\t\treturn false, false", "case c < 0 && s.number < 0:\n\t\treturn false, false"}},
	{name: "answers of another epoch are counted", by: on("taken-for-dead"), patch: patch{
		"session/registry/slot.go", "return s, s.epoch == epoch", "return s, s.epoch == epoch || s.number >= 0"}},
	{name: "what the feed carries overtakes a read", test: test("./session/registry", "TestRegistry_AgreesWithModel"), patch: patch{
		"session/registry/push.go", "tp.due || tp.reading || tp.lastRead", "tp.due || tp.lastRead"}},
	{name: "the counter begins where it was + versions do not begin at the grant's base", by: on("f16", "drained-over-slow-links"), patch: patch{
		"data/store/store.go", "s.counter = max(s.counter, floor) + 1\n\ts.claims", "s.counter = floor\n\ts.claims"}, more: []patch{{
		"data/migrate.go", "r.store.Serve(max(r.base, m.end.GetCounter(), min(m.pushed, r.base+conclave.VersionBase)), marked, now)", "r.store.Serve(max(m.end.GetCounter(), min(m.pushed, r.base+conclave.VersionBase)), marked, now)"}}},
	{name: "a copy of a lower version replaces + an older write overtakes", test: test("./data/store", "TestStore_AgreesWithModel"), by: on("overtaken-values", "overtaken-values@2", "overtaken-values@3"), patch: patch{
		"data/store/store.go", "case at >= 0 && r.copies[at].version >= c.Version:", "case at >= 0 && r.copies[at].version == c.Version:"}, more: []patch{{
		"data/service.go", "if number < r.numbers[session] {", "if number < r.numbers[session] && number == 0 {"}}},
	{name: "an older write overtakes", test: test("./data", "TestWrite_OlderRequestIsRefused"), by: on("overtaken-writes", "overtaken-removals", "overtaken-writes@2", "overtaken-writes@3"), patch: patch{
		"data/service.go", "if number < r.numbers[session] {", "if number < r.numbers[session] && number == 0 {"}},
	{name: "an answer to a diff wins over what was written since", test: test("./data/store", "TestMerge_WriteOvertakesDiffAnswer"), by: on("overtaken-answers"), patch: patch{
		"data/store/feed.go", "s.touched[key].number > m.since", "s.touched[key].number > m.since && m.since > 1<<62"}},
	{name: "a diff outlives the leadership that asked for it + what was written to a follower overtakes its leader's feed", test: test("./data", "TestPendingMerge_NeverOutlivesItsLeadership"), by: on("handed-over-during-a-diff", "handed-over-during-a-diff@2"), patch: patch{
		"data/replica.go", "\t\tr.store.EndAll()\n", ""}, more: []patch{{
		"data/store/feed.go", "return m != nil && s.touched[key].number > m.since", "return s.touched[key].number > 0 && (m == nil || s.touched[key].number > m.since)"}}},
	{name: "a removal takes newer versions + an older write overtakes", test: test("./data/store", "TestStore_AgreesWithModel"), by: on("overtaken-removals", "overtaken-removals@2"), patch: patch{
		"data/store/store.go", "if c.version > version || c.withdrawn", "if c.withdrawn"}, more: []patch{{
		"data/service.go", "if number < r.numbers[session] {", "if number < r.numbers[session] && number == 0 {"}}},
	{name: "a tombstone is removed while it hides a copy + a removal shows what is older + a withdrawal that data has is not repeated", test: test("./data/store", "TestTombstone_HidesLowerCopiesUntilTheyAreGone"), by: on("withdrawn-and-both-are-lost", "withdrawn-and-both-are-lost@2", "withdrawn-and-both-are-lost@3"), patch: patch{
		"data/store/store.go", "c.withdrawn && r.hides(c.version)", "c.withdrawn && len(r.copies) > 9"}, more: []patch{{
		"data/store/store.go", "found && d.regs[i].hides(version) {", "found && d.regs[i].hides(version) && i < 0 {"}, {
		"client/link.go", "range c.sorted() {\n\t\tl.queue(p)\n", "range c.sorted() {\n\t\tif p.forget.IsZero() {\n\t\t\tl.queue(p)\n\t\t}\n"}}},
	{name: "a removal shows what is older", by: on("mover-that-dies"), patch: patch{
		"data/store/store.go", "found && d.regs[i].hides(version) {", "found && d.regs[i].hides(version) && i < 0 {"}},
	{name: "a lost session's registrations go at once", by: on("f19"), patch: patch{
		"data/owners.go", "case now.Sub(p.goneSince) >= o.grace:", "case now.Sub(p.goneSince) >= 0:"}},
	{name: "what no client has confirmed is offered", by: on("session-wakes-before-its-timers"), patch: patch{
		"session/registry/publish.go", "return reg.withdrawn || reg.owner.fresh(now, r.grace)", "return reg.withdrawn || !now.IsZero()"}},
	{name: "a session forgets withdrawals that data has", by: on("withdrawn-and-stored-late", "withdrawn-and-stored-late@2"), patch: patch{
		"session/registry/queue.go", "tombstone{reg, now.Add(r.grace)}", "tombstone{reg, now}"}},
	{name: "a session answers for its name's last life", test: test("./session", "TestDiffForAnotherIncarnation"), by: on("restarted-while-it-is-asked", "restarted-while-it-is-asked@2"), patch: patch{
		"session/diff.go", "if wire.NodeIn(m.GetSession()) != d.config.Node {", "if wire.NodeIn(m.GetSession()).Name != d.config.Node.Name {"}},
	{name: "an answer of another life is believed", test: test("./data", "TestDiff_RestartedSessionIsAnotherOwner"), by: on("restarted-while-it-is-asked", "restarted-while-it-is-asked@2"), patch: patch{
		"data/diff.go", "err == nil && wire.NodeIn(res.Msg.GetSession()) != j.session", "err == nil && wire.NodeIn(res.Msg.GetSession()).Name != j.session.Name"}},
	{name: "pushes are never held", test: test("./session/registry", "TestGuardHoldsOnlyUnexplainedShrinking"), by: on("a-session-is-lost-with-its-clients"), patch: patch{
		"session/registry/guard.go", "if !g.on || !now.Before(m.until) || s.known() >= m.below {", "if m.below >= 0 {"}},
	{name: "older versions reach the application", test: test("./client", "TestPushesAreNewestWins"), by: on("moved-over-slow-links@17"), patch: patch{
		"client/subscription.go", "if s.list != nil && version <= s.seen.Version {", "if s.closed {"}},

	// The order of service, the bound on what waits for data, and what a client sends and sends again.
	{name: "what is watched waits behind what is new", by: on("new-registrations-wait"), test: test("./session/registry", "TestTake_ClassesInTheirOrder"), patch: patch{
		"session/registry/slot.go", "\t\treturn watched\n", "\t\treturn fresh\n"}},
	{name: "an update waits behind new publications", by: on("new-registrations-wait"), patch: patch{
		"client/send.go", "\treturn updates\n", "\treturn others\n"}},
	{name: "what is urgent has no window of its own", by: on("new-registrations-wait@3"), test: test("./client", "TestLink_WhatIsUrgentDoesNotWaitForRoom"), patch: patch{
		"client/send.go", "\tif class > updates {", "\tif class > others {"}},
	{name: "a stream is not read while registrations of it wait", by: on("new-registrations-wait@3"), test: test("./session", "TestRoom_NewRegistrationsWait"), patch: patch{
		"session/backlog.go", "over := b.bytes > b.own", "over := b.bytes > 0"}},
	{name: "a client sends all that it has at once", test: test("./client", "TestLink_FullSessionIsNotLeft"), by: on("overload-by-six-times", "overload-by-six-times@2"), patch: patch{
		"client/send.go", "\tcase len(w.sent) == 0:\n\t\treturn w.size\n\tcase w.messages >= windowMessages:\n\t\treturn 0\n\t}\n", "\tcase w.messages < 1<<20:\n\t\treturn 1 << 30\n\t}\n"}},

	// A slot's last complete copy: which node is the replacement of a dead leader, and which nodes stay until another copy is complete.
	{name: "a complete copy on a forbidden node is left out", by: on("storm@1"), test: test("./slot", "TestArrange_GrantsSlotToForbiddenNodeWithLastCompleteCopy"), patch: patch{
		"slot/replacement.go", "holders := those(s.Holders()[1:], a.up)", "holders := those(s.Holders()[1:], a.mayHold)"}},

	// What happens while sessions are dead or suspended.
	{name: "an outage of all sessions counts against their clients", test: test("./data", "TestOwners_OutageOfAllSessionsRemovesNothing"), by: on("all-sessions-are-killed", "all-sessions-are-killed@2", "all-sessions-are-frozen"), patch: patch{
		"data/sweep.go", "s.owners.sweep(copies, len(living) == 0 || s.metaLeaderSilent(), now)", "s.owners.sweep(copies, s.metaLeaderSilent(), now)"}},
	{name: "leases are not renewed when their session resumes", by: on("all-sessions-are-frozen", "all-sessions-are-frozen@2", "all-sessions-are-frozen@3"), patch: patch{
		"session/leases.go", "now.Sub(last) > stalled {", "now.Sub(last) > 1000*stalled {"}},
	{name: "a slot without a copy is served unmarked", test: test("./data", "TestMarks_GrantWithoutCopyIsMarked"), by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2"), patch: patch{
		"data/migrate.go", "case m.r.copyEpoch.IsZero():\n\t\treturn true", "case m.r.copyEpoch.IsZero():\n\t\treturn owners.anyInGrace()"}},
	{name: "marks end while no session lives", test: test("./data", "TestOwners_OutageOfAllSessionsKeepsMarks"), by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2"), patch: patch{
		"data/sweep.go", "if len(living) == 0 && r.store != nil && r.store.Marked(now) > 0 {", "if len(living) == 0 && r.id < 0 {"}},
	{name: "a session pushes what has come back so far", test: test("./session/registry", "TestGuardHoldsOnlyUnexplainedShrinking"), by: on("power-cut-of-data-and-sessions", "power-cut-of-data-and-sessions@2", "power-cut-of-data-and-sessions@3"), patch: patch{
		"session/registry/guard.go", "case now.Before(m.incomplete) && (s.hash == 0 && s.to.Foreign || s.exceeds(d, m.withdrawn)):", "case m.until.IsZero() && s.exceeds(d, m.withdrawn):"}},
	{name: "a cursor names no publishers", test: test("./session", "TestCursor_NamesThePublishersOfAShortList"), by: on("storm@89"), patch: patch{
		"session/polls.go", "if len(l.Publishers) <= mostNamed {", "if len(l.Publishers) < 0 {"}},
	{name: "registrations of broken connections stay", test: test("./session", "TestClientDiesAndClientCloses"), by: on("storm@1"), patch: patch{
		"session/clients.go", "if leaves > 0 {", "if leaves < 0 {"}},
	{name: "an end that was seen is silence", test: test("./session", "TestClientDiesAndClientCloses"), by: on("storm@12"), patch: patch{
		"session/clients.go", "if b.seen = conn.closed && !b.expected(); b.seen {", "if b.seen = conn.closed && b.expected(); b.seen {"}},

	// What an operator does: drains of the last node, actions after which the cluster would not serve, and the announcement that the cluster stops.
	{name: "the last session is drained", by: on("the-last-session-is-not-drained", "acts-that-end-the-service-are-refused"), test: test("./meta", "TestDrain_OfTheLastSessionIsRefused"), patch: patch{
		"meta/roster.go", "n.takesClients() && !forbidden(other)", "n.member.Role == conclave.RoleSession && n.stream != nil"}},
	{name: "a drained session that is the last one refuses clients", by: on("drained-session-is-the-last"), test: test("./session", "TestDrain_OfTheSessionThatIsLeftWaits"), patch: patch{
		"session/state.go", "case others || d.closing:", "case others || leaves:"}},
	{name: "every session is drained away", by: on("the-last-session-is-not-drained", "drained-session-is-the-last"), patch: patch{
		"meta/roster.go", "n.takesClients() && !forbidden(other)", "n.member.Role == conclave.RoleSession && n.stream != nil"}, more: []patch{{
		"session/state.go", "case others || d.closing:", "case others || leaves:"}}},
	{name: "the last candidate quits", by: on("all-candidates-are-asked-to-quit"), test: test("./meta", "TestElectionQuit_OfTheLastCandidateIsRefusedUnlessForced"), patch: patch{
		"meta/effects.go", "if !a.otherCandidate(name) {\n\t\treturn unsafe", "if name == \"\" {\n\t\treturn unsafe"}},
	{name: "settings that end the service are taken", by: on("acts-that-end-the-service-are-refused"), test: test("./meta", "TestSwitches_ThatEndTheServiceAreRefusedUnlessForced"), patch: patch{
		"meta/admin.go", "case !o.force:", "case !o.force && e.refusal.Code != wire.CodeUnsafe:"}},
	{name: "every data node is forbidden", by: on("acts-that-end-the-service-are-refused"), test: test("./meta", "TestForbid_OfEveryDataNodeIsRefusedUnlessForced"), patch: patch{
		"meta/effects.go", "if n.Name != except && !a.black().Has(n.Name) {", "if n.Name != except {"}},
	{name: "what was announced to one node never ends", by: on("stopped-after-an-announcement"), test: test("./data", "TestStop_AnnouncementExpires"), patch: patch{
		"meta/metaclient/stopping.go", "new(time.Now().Add(lasts))", "new(time.Now().Add(1000 * lasts))"}},
	{name: "a stop announced to the leader never ends", by: on("storm@71"), test: test("./meta", "TestStopping_IsRecordedAndEnds"), patch: patch{
		"wire/state.go", "return max(0, a.lasts-time.Since(v.announced)), true", "return a.lasts + 0*time.Since(v.announced), true"}, more: []patch{{
		"meta/stopping.go", "case left > 0:\n\t\treturn time.Now().Add(left), nil", "case left >= 0:\n\t\treturn time.Time{}, nil"}}},
}
