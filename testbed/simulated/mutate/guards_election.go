package main

// The guards of the election, of the leader's rows, and of the receivers of its
// commands.
var electionGuards = []guard{
	{name: "renewal without owner and term", by: on("a-renewal-that-lands-late", "a-renewal-that-lands-late@2", "storm@1", "storm@2", "storm@3", "storm@4", "storm@5"), patch: patch{
		"sql/lock/renew.sql", "AND owner = ? AND term = ? AND term_duration = ?", "AND ? <> '' AND ? >= 0 AND ? >= 0"}},
	{name: "an expired lease is won whatever was read", by: on("all-swap-at-once"),
		covered: []string{"an expired lease is won whatever the beat", "an expired lease is won whatever the database's clock says"}, patch: patch{
			"sql/lock/win_expired.sql", "AND owner = ? AND term = ? AND nonce = ?", "AND ? <> 'x' AND ? >= 0 AND ? <> 'x'"}},
	{name: "an expired lease is won whatever the beat", by: on("all-swap-at-once"),
		covered: []string{"an expired lease is won whatever was read", "an expired lease is won whatever the database's clock says"}, patch: patch{
			"sql/lock/win_expired.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "an expired lease is won whatever the database's clock says", by: on("all-swap-at-once"),
		covered: []string{"an expired lease is won whatever the beat", "an expired lease is won whatever was read"}, patch: patch{
			"sql/lock/win_expired.sql", "AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000", ""}},
	{name: "a vacant lock is won whatever was read", by: on("all-swap-at-once"), covered: []string{"a lock is won as if it were vacant"}, patch: patch{
		"sql/lock/win_vacant.sql", "AND owner = ? AND term = ? AND nonce = ?", "AND ? <> 'x' AND ? >= 0 AND ? <> 'x'"}},
	{name: "a lock is won as if it were vacant", by: on("all-swap-at-once"), covered: []string{"a vacant lock is won whatever was read"}, patch: patch{
		"sql/lock/win_vacant.sql", "AND (resigned = 1 OR owner = '')", ""}},
	{name: "a lost answer is taken for a win", by: on("all-swap-at-once", "f08"), covered: []string{"the witness of a term of another node is reacquired"}, patch: patch{
		"elector/termcas/win.go", "if now.nonce != w.nonce {", "if now.nonce == w.term.Leader.Name {"}},
	{name: "the witness of a term of another node is reacquired", by: on("all-swap-at-once", "f08"), covered: []string{"a lost answer is taken for a win"}, patch: patch{
		"elector/termcas/renew.go", "err == nil && (r.owner != me.ID.String() || r.number != term)", "err == nil && r.number > 1<<62"}},
	{name: "a late beat is a lost leader", by: on("a-late-beat-is-not-a-lost-leader"), patch: patch{
		"elector/termcas/win.go", "case observed >= r.lease && r.age >= r.lease:", "case r.age >= r.lease:"}},
	{name: "a lock is won with another's witness", by: on("f03"), test: unit{"./sql", "TestWinWitness_OnlyOnHoldersConnection"}, patch: patch{
		"sql/lock/win_witness.sql", "  AND IS_USED_LOCK(?) = CONNECTION_ID()\n", "  AND ? <> ''\n"}},
	{name: "the leader's port is not asked", by: on("the-port-is-asked"), patch: patch{
		"elector/termcas/strategy.go", "if s.leaderAnswers(ctx, row) {", "if row.owner == \"\" {"}},
	{name: "\"stopped\" is no promise", by: on("stopped-is-a-promise@3"), patch: patch{
		"elector/observe.go", "s.left = max(s.left, term)", "s.left = max(s.left, 0)"}},
	{name: "trust without end", by: on("f07"), covered: []string{"trust's timer does nothing"}, patch: patch{
		"elector/elector.go", "if e.shared.stateAt(time.Now(), suspended) != Leading {", "if l := e.shared.lead; suspended || l == nil || l.ended != nil {"}},
	{name: "trust's timer does nothing", by: on("f07"), covered: []string{"trust without end"}, patch: patch{
		"elector/leadership.go", "expired := !time.Now().Before(l.until)", "expired := l.until.IsZero()"}},
	{name: "trust counts from the answer", by: on("slow-answers-stretch-no-lease", "slow-answers-stretch-no-lease@2", "slow-answers-stretch-no-lease@3", "slow-answers-stretch-no-lease@4"), test: unit{"./elector", "TestLeading_EndsOnTimeWhenStoreHangs"}, patch: patch{
		"elector/round.go", "trust(sent, e.cfg.Lease, e.cfg.Margin)", "trust(sent.Add(time.Since(sent)), e.cfg.Lease, e.cfg.Margin)"}},
	{name: "write without the lock row", by: on("a-write-that-lands-late", "a-write-that-lands-late@2"), test: unit{"./sql", "TestWrite_AppliedOnlyUnderItsTerm"}, patch: patch{
		"sql/state/write.sql", "AND l.owner = ? AND l.term = ?", "AND ? <> '' AND ? >= 0"}},
	{name: "write under an earlier term of its own", by: on("a-write-of-an-earlier-term-of-its-own"), patch: patch{
		"sql/state/write.sql", "AND l.owner = ? AND l.term = ?", "AND l.owner = ? AND ? >= 0"}},
	{name: "write whatever was written since", by: on("a-write-behind-its-own-successor", "a-write-behind-its-own-successor@2"), test: unit{"./sql", "TestWrite_AppliedOnlyUnderItsTerm"}, patch: patch{
		"sql/state/write.sql", "s.kind = ? AND s.term = ? AND s.seq = ?", "s.kind = ? AND ? >= 0 AND ? >= 0"}},
	{name: "published before it is written", by: on("f16"), patch: patch{
		"meta/rows.go", "\toutcome, err := a.settle(ctx, old, next)\n",
		"\tif err := a.decode(next); err != nil {\n\t\treturn err\n\t}\n\ta.publish()\n\toutcome, err := a.settle(ctx, old, next)\n"}},
	{name: "seal without the lock row", by: on("a-seal-that-lands-late", "a-seal-that-lands-late@2"), test: unit{"./sql", "TestStatements_OfOldTermChangeNoRow"}, patch: patch{
		"sql/state/seal.sql", "AND l.owner = ? AND l.term = ?", "AND ? <> '' AND ? >= 0"}},
	{name: "commands of older terms are obeyed", by: on("published-late"), patch: patch{
		"wire/fence.go", "admitted := term >= before", "admitted := term+before > 0"}},
	{name: "older tables are taken", by: on("f20", "tables-that-arrive-late"), patch: patch{
		"wire/view.go", "return c > 0\n", "return c != 0\n"}},
	{name: "forbidden nodes are given slots", by: on("f20"), patch: patch{
		"slot/arrange.go", "a.forbidden[name] = true", "a.forbidden[name] = false"}},
	{name: "a connection has the time of a statement", by: on("a-database-far-away"), patch: patch{
		"sql/open.go", "o.Connect = 6 * o.Deadline", "o.Connect = o.Deadline"}},
}
