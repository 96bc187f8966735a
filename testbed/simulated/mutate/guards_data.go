package main

// The guards of slots, of registrations, and of what subscribers receive.
var dataGuards = []guard{
	{name: "a slot is read while the sessions are asked", by: on("overtaken-answers", "overtaken-answers@2", "drained-over-slow-links", "taken-for-dead"), patch: patch{
		"data/replica.go", "case r.state == slot.Migrating && !writes:", "case r.state == slot.Migrating && !writes && r.store == nil:"}},
	{name: "writes at another epoch", by: on("written-at-another-epoch"), test: unit{"./data", "TestWrite_RefusedRequestChangesNothing"}, patch: patch{
		"data/replica.go", "case r.epoch != epoch:", "case r.epoch != epoch && !writes:"}},
	{name: "finish goes on serving", by: on("drained-over-slow-links", "f20"), patch: patch{
		"data/replica.go", "r.enter(slot.Finished, r.epoch)", "r.enter(slot.Serving, r.epoch)"}},
	{name: "a slot is served without the answers of the sessions", by: on("f18"), patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {\n\t\t\tout = append(out, n)", "if !m.answered[n] && n.IsZero() {\n\t\t\tout = append(out, n)"}},
	{name: "a silent source is given up though it lives", test: unit{"./data", "TestHandOver_SilentSourceIsAskedAgainForALostSession"}, by: on("successor-misses-the-end", "successor-misses-the-end@2", "successor-misses-the-end@3"), patch: patch{
		"data/migrate.go", "if m.source.IsZero() || m.taken ||", "if m.source.IsZero() || m.phase == asking ||"}},
	{name: "a copy that is further stays where it is", test: unit{"./data", "TestCrash_FurthestCopyIsTaken"}, by: on("the-furthest-copy-is-being-drained", "the-furthest-copy-is-being-drained@2", "storm@112"), patch: patch{
		"data/migrate.go", "len(m.holders) > 0 {", "len(m.holders) > 9 {"}},
	{name: "the successor of a dead source asks no other holder", test: unit{"./data", "TestHandOver_FurthestCopyReplacesASilentSource"}, by: on("the-source-dies-and-a-follower-has-everything@4415", "storm@4415"), patch: patch{
		"data/migrate.go", "if m.again {", "if m.epoch.Term > 0 {"}},
	{name: "a session that cannot be dialled is waited for without end", test: unit{"./data", "TestGiveUp_MemberThatCannotBeDialled"}, by: on("a-session-that-no-data-node-reaches", "a-session-whose-port-is-closed", "a-session-at-a-wrong-address"), patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {", "if !m.answered[n] {"}},
	{name: "a slot without a copy asks members only", test: unit{"./data", "TestLostSession_SlotWithoutCopyAsksIt"}, by: on("cut-off-from-the-metas-alone", "storm@941"), patch: patch{
		"data/migrate.go", "if now.Before(s.lostUntil(m)) {", "if now.Before(s.lostUntil(m)) && m.r.id < 0 {"}},
	{name: "a session whose lease ran out is forgotten", test: unit{"./meta", "TestLostSession_IsPublishedUntilItIsAccountedFor"}, by: on("cut-off-from-the-metas-alone", "storm@941"), patch: patch{
		"meta/roster.go", "if n.member.Role == conclave.RoleSession && !dead {", "if n.member.Role == conclave.RoleSession && !dead && now.IsZero() {"}},
	{name: "a new leader forgets the lost sessions", test: unit{"./meta", "TestLostSession_IsPublishedUntilItIsAccountedFor"}, by: on("cut-off-from-the-metas-alone"), patch: patch{
		"meta/roster.go", "if r.nodes[m.Node.Name] == nil {\n\t\t\tr.absent", "if r.nodes[m.Node.Name] == nil && now.IsZero() {\n\t\t\tr.absent"}},
	{name: "a diff is no fence", test: unit{"./session", "TestDiffIsAFence"}, by: on("taken-for-dead"), patch: patch{
		"session/registry/diff.go", "adopted, ok := r.Adopt(s.number, epoch, address, now)", "adopted, ok := address == \"none\", !epoch.Less(s.epoch)"}},
	{name: "a lower leader epoch is adopted", by: on("taken-for-dead"), patch: patch{
		"session/registry/slot.go", "case c < 0:\n\t\treturn false, false", "case c < 0 && s.number < 0:\n\t\treturn false, false"}},
	{name: "answers of another epoch are counted", by: on("taken-for-dead"), patch: patch{
		"session/registry/slot.go", "return s, s.epoch == epoch", "return s, s.epoch == epoch || s.number >= 0"}},
	{name: "the counter begins where it was", by: on("f16", "drained-over-slow-links"), covered: []string{"versions do not begin at the grant's base"}, patch: patch{
		"data/store/store.go", "s.counter = max(s.counter, floor) + 1\n\ts.claims", "s.counter = floor\n\ts.claims"}},
	{name: "versions do not begin at the grant's base", by: on("f16", "drained-over-slow-links"), covered: []string{"the counter begins where it was"}, patch: patch{
		"data/migrate.go", "r.store.Serve(max(r.base, m.end.GetCounter(), min(m.pushed, r.base+conclave.VersionBase)), marked, now)", "r.store.Serve(max(m.end.GetCounter(), min(m.pushed, r.base+conclave.VersionBase)), marked, now)"}},
	{name: "a copy of a lower version replaces", test: unit{"./data/store", "TestStore_AgreesWithModel"}, by: on("overtaken-values", "overtaken-values@2", "overtaken-values@3"), covered: []string{"an older write overtakes"}, patch: patch{
		"data/store/store.go", "case at >= 0 && r.copies[at].version >= c.Version:", "case at >= 0 && r.copies[at].version == c.Version:"}},
	{name: "an older write overtakes", test: unit{"./data", "TestWrite_OlderRequestIsRefused"}, by: on("overtaken-writes", "overtaken-removals", "overtaken-writes@2", "overtaken-writes@3"), patch: patch{
		"data/service.go", "if number < r.numbers[session] {", "if number < r.numbers[session] && number == 0 {"}},
	{name: "an answer to a diff wins over what was written since", test: unit{"./data/store", "TestMerge_WriteOvertakesDiffAnswer"}, by: on("overtaken-answers"), patch: patch{
		"data/store/feed.go", "s.touched[key].number > m.since", "s.touched[key].number > m.since && m.since > 1<<62"}},
	{name: "a diff outlives the leadership that asked for it", test: unit{"./data", "TestPendingMerge_NeverOutlivesItsLeadership"}, by: on("handed-over-during-a-diff", "handed-over-during-a-diff@2"), covered: []string{"what was written to a follower overtakes its leader's feed"}, patch: patch{
		"data/replica.go", "\t\tr.store.EndAll()\n", ""}},
	{name: "what was written to a follower overtakes its leader's feed", by: on("handed-over-during-a-diff", "handed-over-during-a-diff@2"), covered: []string{"a diff outlives the leadership that asked for it"}, patch: patch{
		"data/store/feed.go", "return m != nil && s.touched[key].number > m.since", "return s.touched[key].number > 0 && (m == nil || s.touched[key].number > m.since)"}},
	{name: "a removal takes newer versions", test: unit{"./data/store", "TestStore_AgreesWithModel"}, by: on("overtaken-removals", "overtaken-removals@2"), covered: []string{"an older write overtakes"}, patch: patch{
		"data/store/store.go", "if c.version > version || c.withdrawn", "if c.withdrawn"}},
	{name: "a tombstone is removed while it hides a copy", test: unit{"./data/store", "TestTombstone_HidesLowerCopiesUntilTheyAreGone"}, by: on("withdrawn-and-both-are-lost", "withdrawn-and-both-are-lost@2", "withdrawn-and-both-are-lost@3"), covered: []string{"a removal shows what is older", "a withdrawal that data has is not repeated"}, patch: patch{
		"data/store/store.go", "c.withdrawn && r.hides(c.version)", "c.withdrawn && len(r.copies) > 9"}},
	{name: "a removal shows what is older", by: on("mover-that-dies"), patch: patch{
		"data/store/store.go", "found && d.regs[i].hides(version) {", "found && d.regs[i].hides(version) && i < 0 {"}},
	{name: "a lost session's registrations go at once", by: on("f19"), patch: patch{
		"data/owners.go", "case now.Sub(p.goneSince) >= o.grace:", "case now.Sub(p.goneSince) >= 0:"}},
	{name: "what no client has confirmed is offered", by: on("session-wakes-before-its-timers"), patch: patch{
		"session/registry/publish.go", "return reg.withdrawn || reg.owner.fresh(now, r.grace)", "return reg.withdrawn || !now.IsZero()"}},
	{name: "a withdrawal that data has is not repeated", test: unit{"./client", "TestReplay_RepeatsAStoredWithdrawal"}, by: on("withdrawn-before-a-follower-heard", "withdrawn-before-a-follower-heard@2"), patch: patch{
		"client/link.go", "range c.sorted() {\n\t\tl.queue(p)\n", "range c.sorted() {\n\t\tif p.forget.IsZero() {\n\t\t\tl.queue(p)\n\t\t}\n"}},
	{name: "a session answers for its name's last life", test: unit{"./session", "TestDiffForAnotherIncarnation"}, by: on("restarted-while-it-is-asked", "restarted-while-it-is-asked@2"), patch: patch{
		"session/diff.go", "if wire.NodeIn(m.GetSession()) != d.config.Node {", "if wire.NodeIn(m.GetSession()).Name != d.config.Node.Name {"}},
	{name: "an answer of another life is believed", test: unit{"./data", "TestDiff_RestartedSessionIsAnotherOwner"}, by: on("restarted-while-it-is-asked", "restarted-while-it-is-asked@2"), patch: patch{
		"data/diff.go", "err == nil && wire.NodeIn(res.Msg.GetSession()) != j.session", "err == nil && wire.NodeIn(res.Msg.GetSession()).Name != j.session.Name"}},
	{name: "pushes are never held", test: unit{"./session/registry", "TestGuardHoldsOnlyUnexplainedShrinking"}, by: on("a-session-is-lost-with-its-clients"), patch: patch{
		"session/registry/guard.go", "if !g.on || !now.Before(m.until) || s.known() >= m.below {", "if m.below >= 0 {"}},
	{name: "older versions reach the application", test: unit{"./client", "TestPushesAreNewestWins"}, by: on("moved-over-slow-links@17"), patch: patch{
		"client/subscription.go", "if s.list != nil && version <= s.seen.Version {", "if s.closed {"}},
}
