package main

// The claims of docs/articles.md, by article: each patch makes one of them false,
// and the test is the one that the claim's row names. Most are no guards of the
// cluster but the claim itself, so no scenario is played.
var articleGuards = []guard{
	// 000: election of the meta leader.
	{name: "000: two rows of one lock", test: test("./elector/termcas/tests", "TestArticleOneRowPerDataCentreAndLock"), patch: patch{
		"sql/schema/001_distribute_lock.sql", "  UNIQUE KEY uk_data_center_lock_name", "  KEY uk_data_center_lock_name"}},
	{name: "000: a candidate that lost takes itself for the leader", test: test("./elector/termcas/tests", "TestArticleOneOfThreeBecomesLeader"), patch: patch{
		"elector/termcas/win.go", "if n == 1 && err == nil {", "if n >= 0 && err == nil {"}},
	{name: "000: a beat every second second", test: test("./elector/termcas/tests", "TestArticleLeaderBeats"), patch: patch{
		"elector/schedule.go", "return s.sent.Add(beat - jitter) //", "return s.sent.Add(2*beat - jitter) //"}},
	{name: "000: the beat names nothing", test: test("./elector/termcas/tests", "TestArticleBeatNamesOwnerTermAndBeat"), patch: patch{
		"sql/lock/renew.sql", "AND owner = ? AND term = ? AND term_duration = ?", "AND ? <> '' AND ? >= 0 AND ? >= 0"}},
	{name: "000: the update competes whatever the beat", test: test("./elector/termcas/tests", "TestArticleSwapFromAnOldReadingMatchesNothing"), patch: patch{
		"sql/lock/win_expired.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "000: the database's time is not asked", test: test("./elector/termcas/tests", "TestArticleDatabaseTimeDecidesTheLease"), patch: patch{
		"sql/lock/win_expired.sql", "AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000", ""}},
	{name: "000: a win raises the term by two", test: test("./elector/termcas/tests", "TestArticleOfTwoFollowersOneMatches"), patch: patch{
		"sql/lock/win_expired.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}},
	{name: "000: nothing is called when a leadership ends", test: test("./elector/termcas/tests", "TestArticleListenersAreNotifiedOfBoth"), patch: patch{
		"elector/leadership.go", "e.shared.why = why.Error()\n\te.put()", ""}},
	{name: "000: an observer competes", test: test("./elector/termcas/tests", "TestArticleObserverOnlyReads"), patch: patch{
		"elector/termcas/strategy.go", "\tif me.Observer {", "\tif me.Observer && row.number > 0 {"}},
	{name: "000: a killed leader is followed with term + 2", test: test("./meta", "TestArticleKillTheLeaderTwice"), patch: patch{
		"elector/termcas/win.go", "max(r.number, me.Highest) + 1,", "max(r.number, me.Highest) + 2,"}, more: []patch{
		{"sql/lock/win_witness.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}, {"sql/lock/win_expired.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}}},
	{name: "000: meta forgets the sessions", test: test("./meta", "TestArticleMetaKnowsSessionsAndData"), patch: patch{
		"meta/roster.go", "\t\treturn *n, true\n", "\t\treturn *n, n.member.Role != \"session\"\n"}},
	{name: "000: a follower does not name the leader", test: test("./meta", "TestArticleAFollowerNamesTheLeader"), patch: patch{
		"meta/leader.go", "return nil, wire.NotLeader(name, address)", "return nil, wire.NotLeader(name, address[:0])"}},
	{name: "000: another function of the name", test: test("./slot", "TestOf_AgreesWithOriginal"), patch: patch{
		"slot/slot.go", "\t\tsum = -sum\n", "\t\tsum = ^sum\n"}},

	// 000, the profile sofa.
	{name: "000: sofa with a warm-up of three seconds", test: test("./meta/metacmd", "TestProfileSofaHasTheOriginalsTimings"), patch: patch{
		"meta/metacmd/database.go", "c.WarmUp, c.Limits = 30*time.Second", "c.WarmUp, c.Limits = 3*time.Second"}},
	{name: "000: sofa's lease of 20 s ends after 20 s", test: test("./elector/termcas/tests", "TestArticleSofaLeaseOf20SecondsIs21"), patch: patch{
		"sql/lock/sofa_win.sql", "TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) > duration / 1000", "TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) >= duration / 1000"}, more: []patch{{
		"elector/termcas/sofa.go", "case r.age > r.lease:", "case r.age >= r.lease:"}}},
	{name: "000: sofa renews in the last second", test: test("./elector/termcas/tests", "TestArticleSofaInLastSecondNoNodeRenewsOrWins"), patch: patch{
		"sql/lock/sofa_beat.sql", "UTC_TIMESTAMP()) < duration / 1000", "UTC_TIMESTAMP()) <= duration / 1000"}},
	{name: "000: sofa's second insert takes the row over", test: test("./elector/termcas/tests", "TestArticleSofaInsertChangesNothingTwice"), patch: patch{
		"sql/lock/sofa_insert.sql", "ON DUPLICATE KEY UPDATE id = id", "ON DUPLICATE KEY UPDATE owner = VALUES(owner)"}},
	{name: "000: sofa's update competes whatever the beat", test: test("./elector/termcas/tests", "TestArticleSofaOfTwoUpdatesOneMatches"), patch: patch{
		"sql/lock/sofa_win.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "000: sofa gives the row back", test: test("./elector/termcas/tests", "TestArticleSofaHasNoResignation"), patch: patch{
		"elector/termcas/sofa.go", "Resign(context.Context, elector.Term) error {\n\ts.won = elector.Term{}\n\treturn nil",
		"Resign(ctx context.Context, _ elector.Term) error {\n\ts.won = elector.Term{}\n\t_, err := s.cfg.DB.Exec(ctx, \"UPDATE distribute_lock SET gmt_modified = DATE_SUB(gmt_modified, INTERVAL 1 HOUR)\")\n\treturn err"}},
	{name: "000: sofa lets the next node win after a resignation", test: test("./elector/termcas/tests", "TestSofaConformance"), patch: patch{
		"elector/termcas/sofa.go", "Resign(context.Context, elector.Term) error {\n\ts.won = elector.Term{}\n\treturn nil",
		"Resign(ctx context.Context, _ elector.Term) error {\n\ts.won = elector.Term{}\n\t_, err := s.cfg.DB.Exec(ctx, \"UPDATE distribute_lock SET gmt_modified = DATE_SUB(gmt_modified, INTERVAL 1 HOUR)\")\n\treturn err"}},
	{name: "000: a forced refresh begins a term", test: test("./elector/termcas/tests", "TestArticleSofaForceRefreshMakesTwoOwnersOfOneTerm"), patch: patch{
		"sql/lock/sofa_refresh.sql", "SET owner = ?,", "SET term = term + 1, owner = ?,"}},
	{name: "000: sofa recognises a win whose answer was lost", test: test("./elector/termcas/tests", "TestArticleSofaWinWithLostAnswerWaitsForLease"), patch: patch{
		"elector/termcas/sofa.go", "\tcase err != nil:\n\t\treturn elector.Term{}, fmt.Errorf(\"outcome of term", "\tcase err != nil:\n\t\tif now, _ := s.read(ctx); now.owner == me.ID.String() {\n\t\t\ts.won = elector.Term{Number: now.number, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause}\n\t\t\treturn s.won, nil\n\t\t}\n\t\treturn elector.Term{}, fmt.Errorf(\"outcome of term"}},

	// 000, the original's own loop.
	{name: "000: the loop calls back on changes only", test: test("./lab/article000/sofaloop", "TestElect_CallsBackInEachRound"), patch: patch{
		"lab/article000/sofaloop/loop.go", "\tl.mu.Lock()\n\tl.leaderInfo = info\n\tl.mu.Unlock()\n", "\tl.mu.Lock()\n\tsame := l.leaderInfo.Leader == info.Leader\n\tl.leaderInfo = info\n\tl.mu.Unlock()\n\tif same {\n\t\treturn nil\n\t}\n"}},
	{name: "000: the loop's round is every second second", test: test("./lab/article000/sofaloop", "TestRun_LeaderBeatsEachSecond"), patch: patch{
		"lab/article000/sofaloop/loop.go", "sleep.For(ctx, l.cfg.Interval)", "sleep.For(ctx, 2*l.cfg.Interval)"}},
	{name: "000: the loop's winner raises the term by two", test: test("./lab/article000/sofaloop", "TestRun_KillTheLeaderTwice"), patch: patch{
		"sql/lock/sofa_win.sql", "term = term + 1", "term = term + 2"}},
	{name: "000: the loop takes every insert for a win", test: test("./lab/article000/sofaloop", "TestCompeteLeader_OneInserts"), patch: patch{
		"lab/article000/sofaloop/lock.go", "\tk, err := l.queryDistLock(ctx)\n\treturn leaderFrom(k), err\n}\n\n// onLeaderWorking", "\tk, err := l.queryDistLock(ctx)\n\tk.owner = l.cfg.Myself\n\treturn leaderFrom(k), err\n}\n\n// onLeaderWorking"}},
	{name: "000: the loop's observer competes", test: test("./lab/article000/sofaloop", "TestElect_ObserverOnlyReads"), patch: patch{
		"lab/article000/sofaloop/loop.go", "\tif l.cfg.Observer {", "\tif l.cfg.Observer && l.cfg.Duration == 0 {"}},
	{name: "000: the follower's clock decides in the loop", test: test("./lab/article000/sofaloop", "TestOnFollowWorking_DatabasesClockDecides"), patch: patch{
		"lab/article000/sofaloop/lock.go", "\tif !k.expire() {", "\tif k.gmtDbServerTime = l.cfg.Now(); !k.expire() {"}},
	{name: "000: the loop's update counts milliseconds", test: test("./lab/article000/sofaloop", "TestOnFollowWorking_DatabasesClockDecides"), patch: patch{
		"sql/lock/sofa_win.sql", "TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) > duration / 1000", "TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) > duration * 1000"}},
	{name: "000: the loop's heartbeat names nothing", test: test("./lab/article000/sofaloop", "TestOnLeaderWorking_BeatMatchesOnlyWhatWasRead"), patch: patch{
		"sql/lock/sofa_beat.sql", "AND owner = ? AND term = ? AND term_duration = ?", "AND ? <> '' AND ? >= 0 AND ? >= 0"}},
	{name: "000: the loop's update competes whatever the beat", test: test("./lab/article000/sofaloop", "TestOnFollowWorking_OfTwoOneWins"), patch: patch{
		"sql/lock/sofa_win.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "000: the loop believes a row that was deleted", test: test("./lab/article000/sofaloop", "TestDoElect_RowDeletedWithinARound"), patch: patch{
		"lab/article000/sofaloop/lock.go", "\tcase errors.Is(err, conclavesql.ErrNoRows):\n\t\treturn lock{}, err\n\tcase err != nil:\n\t\treturn k, nil", "\tcase err != nil:\n\t\treturn k, nil"}},
	{name: "000: the loop's leader believes for the whole lease", test: test("./lab/article000/sofaloop", "TestAmILeader_ForHalfOfTheDuration"), patch: patch{
		"lab/article000/sofaloop/lock.go", "k.gmtModified.Add(k.duration / 2)", "k.gmtModified.Add(k.duration)"}},
	{name: "000: the loop's leader has the database's clock", test: test("./lab/article000/sofaloop", "TestSkew_TwoLeadersAct"), patch: patch{
		"lab/article000/sofaloop/loop.go", "l.cfg.Now().Before(info.Expire)", "time.Now().Before(info.Expire)"}},
	{name: "000: two leaders act with ten seconds of skew", test: test("./lab/article000/sofaloop", "TestSkew_UnderElevenSecondsHasOneLeader"), patch: patch{
		"lab/article000/sofaloop/lock.go", "k.gmtModified.Add(k.duration / 2)", "k.gmtModified.Add(k.duration * 7 / 10)"}},
	{name: "000: the loop renews what it does not believe to lead", test: test("./lab/article000/sofaloop", "TestAmILeader_NeverByAClockThatIsAhead"), patch: patch{
		"lab/article000/sofaloop/lock.go", "if k.owner == l.cfg.Myself && l.cfg.Now().Before(l.Leader().Expire) {", "if k.owner == l.cfg.Myself {"}},
	{name: "000: the loop's calls end after five seconds", test: test("./lab/article000/sofaloop", "TestElect_HangingCallLeavesTheFlag"), patch: patch{
		"lab/article000/sofaloop/loop.go", "\tinfo, err := play(ctx)\n\tif err != nil {\n", "\tctx, cancel := context.WithTimeout(ctx, 5*time.Second)\n\tdefer cancel()\n\tinfo, err := play(ctx)\n\tif err != nil {\n\t\tif l.cfg.OnIamNotLeader != nil {\n\t\t\tl.cfg.OnIamNotLeader()\n\t\t}\n"}},
	{name: "000: the loop's owner has an incarnation", test: test("./lab/article000/sofaloop", "TestElect_RestartedNodeResumesItsOwnRow"), patch: patch{
		"lab/article000/sofaloop/loop.go", "\tcfg.Duration = cmp.Or(", "\tcfg.Myself += fmt.Sprintf(\"@%p\", &cfg)\n\tcfg.Duration = cmp.Or("}},

	// 001: a lock on a unique key.
	{name: "001: two rows of one key", test: test("./lab/article001/rowlock", "TestArticleTableHasItsColumnsAndItsKey"), patch: patch{
		"lab/article001/rowlock/sql/article_table.sql", "  UNIQUE KEY uk_lock_key", "  KEY uk_lock_key"}},
	{name: "001: a waiter tries once", test: test("./lab/article001/rowlock", "TestArticleAcquireWaitsForTheRelease"), patch: patch{
		"lab/article001/rowlock/article.go", "RefusedAs(err, errDuplicate, errDeadlock)", "RefusedAs(err, errDeadlock)"}},
	{name: "001: a release leaves the row", test: test("./lab/article001/rowlock", "TestArticleAcquireWaitsForTheRelease"), patch: patch{
		"lab/article001/rowlock/sql/article_release.sql", "WHERE id = ?", "WHERE id = -?"}},
	{name: "001: a thread fails with another one", test: test("./lab/article001/rowlock", "TestArticleEachThreadTriesItself"), patch: patch{
		"lab/article001/rowlock/article.go", "\t\tcase <-e.ready:\n", "\t\tcase <-e.ready:\n\t\t\tif !r.Holds(key) {\n\t\t\t\treturn errors.New(\"the other thread has failed\")\n\t\t\t}\n"}},
	{name: "001: a release drops the key first", test: test("./lab/article001/rowlock", "TestArticleReleaseThatFailsCanBeRetried"), patch: patch{
		"lab/article001/rowlock/article.go", "\tid := e.id\n\tr.mu.Unlock()\n", "\tid := e.id\n\tdelete(r.locks, key)\n\tr.mu.Unlock()\n"}},
	{name: "001: the refresh deletes no expired row", test: test("./lab/article001/rowlock", "TestArticleRefreshesItsOwnAndCleansTheDead"), patch: patch{
		"lab/article001/rowlock/sql/article_clean.sql", "WHERE last_term < ?", "WHERE last_term < -?"}},
	{name: "001: the refresh is every four seconds", test: test("./lab/article001/rowlock", "TestArticleRefreshesItsOwnAndCleansTheDead"), patch: patch{
		"lab/article001/rowlock/article.go", "delay := max(r.cfg.Interval, time.Second)", "delay := 2 * max(r.cfg.Interval, time.Second)"}},
	{name: "001: the refresh's delay counts from the start of a run", test: test("./lab/article001/rowlock", "TestArticleRefreshIsScheduledWithFixedDelay"), patch: patch{
		"lab/article001/rowlock/article.go", "for sleep.For(ctx, delay) == nil {", "for at := time.Now().Add(delay); sleep.For(ctx, time.Until(at)) == nil; at = at.Add(delay) {"}},
	{name: "001: a process without locks cleans up", test: test("./lab/article001/rowlock", "TestArticleFaultDeadHoldersRowIsNotCleaned"), patch: patch{
		"lab/article001/rowlock/article.go", "\tif len(ids) == 0 {", "\tif len(ids) < 0 {"}},
	{name: "001: a waiter waits three leases for a dead holder", test: test("./lab/article001/rowlock", "TestArticleRepairedAWaiterCleansForADeadHolder"), patch: patch{
		"lab/article001/rowlock/locks.go", "case r.age >= r.lease || overdue:", "case overdue:"}},
	{name: "001: expired rows are judged by the database's clock", test: test("./lab/article001/rowlock", "TestArticleFaultAFastClockDeletesLivingLocks"), patch: patch{
		"lab/article001/rowlock/sql/article_clean.sql", "WHERE last_term < ?", "WHERE last_term < ? AND last_update_time < DATE_SUB(NOW(), INTERVAL 6 SECOND)"}},
	{name: "001: a clock that is set back keeps a dead lock", test: test("./lab/article001/rowlock", "TestArticleRepairedJumpOfTheDatabasesClock"), patch: patch{
		"lab/article001/rowlock/locks.go", "overdue := time.Since(o.since) >= 3*r.lease", "overdue := time.Since(o.since) >= 30*r.lease"}},
	{name: "001: a holder trusts itself for two leases", test: test("./lab/article001/rowlock", "TestLock_HolderStopsBeforeTheNextBegins"), patch: patch{
		"lab/article001/rowlock/locks.go", "\t\tk.until = sent.Add(l.cfg.trust())\n", "\t\tk.until = sent.Add(2 * l.cfg.Lease)\n"}},
	{name: "001: a second thread waits for the first", test: test("./lab/article001/rowlock", "TestArticleFaultTwoThreadsOfAProcessHoldOneLock"), patch: patch{
		"lab/article001/rowlock/article.go", "\t\tcase acquired:\n\t\t\treturn nil\n", "\t\tcase acquired:\n\t\t\t<-ctx.Done()\n\t\t\treturn ctx.Err()\n"}},
	{name: "001: a release removes only its own entry from the map", test: test("./lab/article001/rowlock", "TestArticleFaultTwoReleasesAtOnceLeaveARow"), patch: patch{
		"lab/article001/rowlock/article.go", "\tr.mu.Lock()\n\tdelete(r.locks, key)\n\tr.mu.Unlock()\n", "\tr.mu.Lock()\n\tif r.locks[key] == e {\n\t\tdelete(r.locks, key)\n\t}\n\tr.mu.Unlock()\n"}},
	{name: "001: two goroutines are admitted to a key", test: test("./lab/article001/rowlock", "TestArticleRepairedThreadsOfAProcessTakeTurns"), patch: patch{
		"lab/article001/rowlock/locks.go", "make(chan struct{}, 1)", "make(chan struct{}, 2)"}},
	{name: "001: a waiter deletes a living holder's row", test: test("./lab/article001/rowlock", "TestLocks_ManyProcessesTakeTurns"), patch: patch{
		"lab/article001/rowlock/locks.go", "case r.age >= r.lease || overdue:", "case r.age >= 0 || overdue:"}, more: []patch{{"lab/article001/rowlock/sql/clean.sql", "\n  AND TIMESTAMPDIFF(MICROSECOND, refreshed, UTC_TIMESTAMP(3)) >= lease_ms * 1000", ""}}},
	{name: "001: the key leaves the map before the row is deleted", test: test("./lab/article001/rowlock", "TestArticleFaultRowIsDeletedBeforeTheKeyLeavesTheMap"), patch: patch{
		"lab/article001/rowlock/article.go", "\tid := e.id\n\tr.mu.Unlock()\n", "\tid := e.id\n\tdelete(r.locks, key)\n\tr.mu.Unlock()\n"}},
	{name: "001: the row is deleted before the lock is given up", test: test("./lab/article001/rowlock", "TestArticleRepairedReleaseGivesUpBeforeTheRowIsDeleted"), patch: patch{
		"lab/article001/rowlock/locks.go", "\tl.drop(k) // the next goroutine is admitted when the row is deleted\n\tl.mu.Unlock()\n\terr := l.table.remove(ctx, k.token, l.cfg.Owner.String())\n", "\tl.mu.Unlock()\n\terr := l.table.remove(ctx, k.token, l.cfg.Owner.String())\n\tl.mu.Lock()\n\tl.drop(k)\n\tl.mu.Unlock()\n"}},
	{name: "001: no waiter spins", test: test("./lab/article001/rowlock", "TestArticleFaultWaitersSpin"), patch: patch{
		"lab/article001/rowlock/article.go", "sleep.For(ctx, r.cfg.Interval)", "sleep.For(ctx, max(r.cfg.Interval, time.Second))"}},
	{name: "001: a waiter looks forty times in a refresh", test: test("./lab/article001/rowlock", "TestArticleRepairedWaitersSleep"), patch: patch{
		"lab/article001/rowlock/locks.go", "jitter(min(r.lease-max(r.age, 0), l.cfg.Refresh/4))", "jitter(min(r.lease-max(r.age, 0), l.cfg.Refresh/40))"}},

	// 002: lossless operations.
	{name: "002: a client that reconnects forgets its subscriptions", test: test("./session", "TestArticleClientReplaysAtAnotherSession"), patch: patch{
		"client/link.go", "\tl.subscribes = c.sortedSubs()\n", ""}},
	{name: "002: a stopping session is not marked first", test: test("./session", "TestArticleSessionStopsInOrder"), patch: patch{
		"session/stop.go", "\t\t\t{Name: \"mark draining\", Do: func(ctx context.Context) error { return s.markDraining(ctx, until) }},\n", ""}},
	{name: "002: clients that leave a session count as gone", test: test("./session", "TestArticleLeavingClientsAreNotTakenForGone"), patch: patch{
		"client/connect.go", "\tfor to := move.GetTo(); ; to = \"\" {\n\t\tnext, err := c.seek", "\tc.leave(old)\n\tc.sleep(ctx, 100*time.Millisecond)\n\tfor to := move.GetTo(); ; to = \"\" {\n\t\tnext, err := c.seek"}, more: []patch{{
		"session/clients.go", "until: now.Add(conn.linger), asked", "until: now, asked"}}},
	{name: "002: a data node stops with its slots", test: test("./data", "TestArticleAStopKeepsItsOrder"), patch: patch{
		"data/stop.go", "\t\t\t\t{Name: \"hand the slots over\", Do: s.handOver},\n", ""}},
	{name: "002: stop-push does not shorten a stop", test: test("./data", "TestArticleAStopWithStopPushWaitsForNoNewCopies"), patch: patch{
		"data/stop.go", "st.Switches.Get(wire.SwitchStopPush, \"off\") == \"on\"", "st.Switches.Get(wire.SwitchStopPush, \"off\") == \"\""}},
	{name: "002: with stop-push a leader stops with its slots", test: test("./data", "TestArticleAStopWithStopPushWaitsForNoNewCopies"), patch: patch{
		"data/stop.go", "return slot.HandedOver(st.Table, name, live)", "return true"}},
	{name: "002: a stop with slots succeeds", test: test("./data", "TestArticleAStopSucceedsWhenItsSlotsHaveMoved"), patch: patch{
		"data/stop.go", "return fmt.Errorf(\"this node still leads %d slots: %w\", len(st.Table.LedBy(s.config.Node)), ctx.Err())", "return fmt.Errorf(\"\")"}},
	{name: "002: all slots leave at once", test: test("./slot", "TestArticleDrain_SixteenSlotsAtOnceByDefault"), patch: patch{
		"slot/input.go", "FollowerMoves: 32, Drains: 16}", "FollowerMoves: 32, Drains: MaxSlots}"}},
	{name: "002: slots leave in another order", test: test("./slot", "TestArticleDrainSlotBySlot"), patch: patch{
		"slot/rebalance.go", "\tfor _, s := range a.t.Slots {\n\t\tif inProgress >=", "\tfor i := range a.t.Slots {\n\t\ts := a.t.Slots[len(a.t.Slots)-1-i]\n\t\tif inProgress >="}},
	{name: "002: nothing is removed from the blacklist", test: test("./meta", "TestArticleBlacklistHandlerForBothRoles"), patch: patch{
		"meta/operate.go", "set, changed := a.black().Remove(name)\n\tif !changed {", "_, changed := a.black().Remove(name)\n\tset := a.black()\n\tif !changed {"}},
	{name: "002: beats renew no lease", test: test("./meta", "TestArticleBeatsRenewAndCarryVersionedLists"), patch: patch{
		"meta/roster.go", "\t\tr.leases.Renew(st.id.Name, at, r.nodeLease)\n\t\tr.lastBeat = at\n", "\t\tr.lastBeat = at\n"}},
	{name: "002: a client sends nothing that was queued before it connected", test: test("./session", "TestArticleClientWorkerSendsWhatIsQueued"), patch: patch{
		"client/link.go", "\tfor _, p := range c.sorted() {\n\t\tl.queue(p)\n", "\tfor _, p := range c.sorted() {\n\t\tif p.accepted.version > 0 {\n\t\t\tl.queue(p)\n\t\t}\n"}},
	{name: "002: a data node leaves the blacklist before it registers", test: test("./data", "TestArticleTheLastStepOfAStartLeavesTheBlacklist"), patch: patch{
		"data/server.go", "if s.Register(ctx) != nil || s.meta.Restore(ctx) != nil {", "if s.meta.Restore(ctx) != nil || s.Register(ctx) != nil {"}},
	{name: "002: a session leaves the blacklist before it takes clients", test: test("./session", "TestArticleLeavesTheBlacklistLast"), patch: patch{
		"session/server.go", "\ts.drain.open()\n", "\t_ = s.meta.Restore(ctx)\n\ts.drain.open()\n"}},
	{name: "002: a task that failed is not retried", test: test("./data", "TestArticleALostSessionsTaskIsRetriedAndOthersAreNotHeldUp"), patch: patch{
		"data/diff.go", "if err == nil || ctx.Err() != nil || !j.awaited {", "if err == nil || ctx.Err() != nil || j.awaited {"}, more: []patch{{
		"data/migrate.go", "\tdelete(m.pending, session)\n", ""}}},
	{name: "002: a node serves before it has the data", test: test("./data", "TestArticleANodeThatComesSynchronisesBeforeItServes"), patch: patch{
		"data/migrate.go", "if m.phase == applying && m.r.reached(m.sourceEpoch, m.end.GetPosition()) {", "if m.phase == applying || m.phase == finishing {"}, more: []patch{{
		"slot/row.go", "return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch)", "return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch) || len(s.Followers) < 100"}}},
	{name: "002: a successor serves without the source's last changes", test: test("./data", "TestHandOver_SuccessorServesAtSourcesLastPosition"), patch: patch{
		"data/migrate.go", "if m.phase == applying && m.r.reached(m.sourceEpoch, m.end.GetPosition()) {", "if m.phase == applying {"}},
	{name: "002: an old table's leader goes on answering", test: test("./data", "TestArticleTwoTablesMayCoexist"), patch: patch{
		"data/replica.go", "\t\treturn wirev1.Access_ACCESS_MOVED, conclave.Epoch{}\n", "\t\treturn wirev1.Access_ACCESS_ACCEPT, r.epoch\n"}},
	{name: "002: a table that changed is not sent", test: test("./meta", "TestArticleTwoTablesCoexistBriefly"), patch: patch{
		"meta/join.go", "\t\tcase <-updated:\n", "\t\tcase <-updated:\n\t\t\t<-keepAlive.C\n"}},
	{name: "002: a lost slot is read before the sessions have answered", test: test("./data", "TestArticleALostSlotIsNotReadUntilAllSessionsWereHeard"), patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {\n\t\t\tout = append(out, n)", "if !m.answered[n] && n.IsZero() {\n\t\t\tout = append(out, n)"}},
	{name: "002: sessions push what is left of a lost slot", test: test("./session", "TestArticleSessionsReplayWhatDataLost"), patch: patch{
		"data/replica.go", "case r.state == slot.Migrating && !writes:", "case r.state == slot.Migrating && !writes && r.store == nil:"}},
	{name: "002: a leader compares with no session", test: test("./data", "TestRepair_AddsWhatWritesMissed"), patch: patch{
		"data/sweep.go", "\t\t\tif s.owners.alive(session) {", "\t\t\tif s.owners.alive(session) && epoch.IsZero() {"}},
	{name: "002: a follower does not compare its copy", test: test("./data", "TestCompare_FollowerThatLostACopyLoadsItAgain"), patch: patch{
		"data/follow.go", "if leaders == nil ||", "if leaders == nil || leaders != nil ||"}},
	{name: "002: a node is sent the switches after it serves", test: test("./data", "TestArticleAStartingNodeHasItsSettingsBeforeItServes"), patch: patch{
		"wire/state.go", "Less(k.epoch(&s)) {\n\t\t\tk.out(&s, out)", "Less(k.epoch(&s)) && (k.known(have) != &have.Switches || have.GetTable().GetTerm() > 0) {\n\t\t\tk.out(&s, out)"}},
	{name: "002: a session has the configuration a second late", test: test("./session", "TestArticleAStartingSessionHasItsSettingsBeforeItServes"), patch: patch{
		"session/state.go", "\ts.watches.update(st.Config)\n", "\ttime.AfterFunc(time.Second, func() { s.watches.update(st.Config) })\n"}},
	{name: "002: a node that starts is sent no configuration", test: test("./meta", "TestConfig_ReachesEveryNodeAndOutlivesItsLeader"), patch: patch{
		"wire/state.go", "Less(k.epoch(&s)) {\n\t\t\tk.out(&s, out)", "Less(k.epoch(&s)) && (k.known(have) != &have.Config || have.GetConfig().GetTerm() > 0) {\n\t\t\tk.out(&s, out)"}},

	// 003: election with a version column.
	{name: "003: the row has no time of its creation", test: test("./lab/article003/versioncas", "TestArticleTableHasItsColumns"), patch: patch{
		"lab/article003/versioncas/sql/article_table.sql", "  create_time datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP,\n", ""}},
	{name: "003: every node wins the first election", test: test("./lab/article003/versioncas", "TestArticleElectIsWonByOne"), patch: patch{
		"lab/article003/versioncas/sql/article_elect.sql", "AND version = ?", "AND ? >= 0"}},
	{name: "003: a tick every ten seconds", test: test("./lab/article003/versioncas", "TestArticleLeaderTicks"), patch: patch{
		"lab/article003/versioncas/article.go", "ArticleTick   = 5 * time.Second", "ArticleTick   = 10 * time.Second"}},
	{name: "003: the followers check two seconds after the tick", test: test("./lab/article003/versioncas", "TestArticleLeaderTicks"), patch: patch{
		"lab/article003/versioncas/article.go", "ArticleOffset = time.Second", "ArticleOffset = 2 * time.Second"}},
	{name: "003: a tick raises the local version when it has succeeded", test: test("./lab/article003/versioncas", "TestArticleTickRaisesTheLocalVersionFirst"), patch: patch{
		"lab/article003/versioncas/article.go", "version := s.version.Add(1) - 1", "version := s.version.Load()"}, more: []patch{{"lab/article003/versioncas/article.go", "\tif n == 0 {\n\t\ts.version.Store(0)\n\t}\n", "\ts.version.Add(n)\n"}}},
	{name: "003: a leader is crashed after five seconds exactly", test: test("./lab/article003/versioncas", "TestArticleLeaderCrashedAfterFiveSeconds"), patch: patch{
		"lab/article003/versioncas/article.go", "> ArticleTick, nil", ">= ArticleTick, nil"}},
	{name: "003: a follower does not re-elect", test: test("./lab/article003/versioncas", "TestArticleFollowerReelects"), patch: patch{
		"lab/article003/versioncas/article.go", "err == nil && crashed {", "err == nil && crashed && s.Swaps() == 0 {"}},
	{name: "003: reelect does not read the row again", test: test("./lab/article003/versioncas", "TestArticleReelectReadsTheRowAgain"), patch: patch{
		"lab/article003/versioncas/article.go", "\t_, ticked, err := s.look(ctx)\n", "\tversion, ticked, err := s.look(ctx)\n\ts.judged.Store(version)\n"}, more: []patch{{"lab/article003/versioncas/article.go", "\treturn s.electing(ctx, version)\n", "\t_ = version\n\treturn s.electing(ctx, s.judged.Load())\n"}, {"lab/article003/versioncas/article.go", "\tswaps   atomic.Int64 // tries to win\n", "\tswaps   atomic.Int64 // tries to win\n\tjudged  atomic.Int64\n"}}},
	{name: "003: a lost swap leaves the flag", test: test("./lab/article003/versioncas", "TestArticleFlagIsTheResultOfTheSwap"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\ts.version.Store(1)\n\t}\n\ts.leading.Store(n == 1)\n", "\t\ts.version.Store(1)\n\t\ts.leading.Store(true)\n\t}\n"}},
	{name: "003: a missing row is no exception", test: test("./lab/article003/versioncas", "TestArticleExceptions"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\terr = ErrNoRow\n", "\t\treturn 0, s.cfg.Now(), nil\n"}},
	{name: "003: a node that does not lead may tick", test: test("./lab/article003/versioncas", "TestArticleExceptions"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\treturn false, ErrNotLeader\n", "\t\treturn false, nil\n"}},
	{name: "003: the leader may check the leader", test: test("./lab/article003/versioncas", "TestArticleExceptions"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\treturn false, ErrLeader\n", "\t\treturn false, nil\n"}},
	{name: "003: a leader that lost leads on", test: test("./lab/article003/versioncas", "TestArticleLeaderThatLostBecomesAFollower"), patch: patch{
		"lab/article003/versioncas/article.go", "\ts.leading.Store(n == 1)\n\tif n == 0 {", "\tif n == 0 {"}},
	{name: "003: a leader whose tick has no answer steps down", test: test("./lab/article003/versioncas", "TestArticleWeaknessTwoLeadersUntilTheNextTick"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\treturn false, fmt.Errorf(\"tick from", "\t\ts.leading.Store(false)\n\t\treturn false, fmt.Errorf(\"tick from"}},
	{name: "003: followers check all the time", test: test("./lab/article003/versioncas", "TestArticleWeaknessReelectionWaitsForTheNextProbe"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\ttasks.Go(func() { s.detectAndReelect(ctx) })\n", "\t\ttasks.Go(func() {\n\t\t\tfor range 50 {\n\t\t\t\t_ = sleep.For(ctx, ArticleTick/50)\n\t\t\t\tif crashed, err := s.LeaderCrashed(ctx); err == nil && crashed {\n\t\t\t\t\t_, _ = s.Reelect(ctx)\n\t\t\t\t}\n\t\t\t}\n\t\t})\n"}},
	{name: "003: the herd is spread", test: test("./lab/article003/versioncas", "TestArticleWeaknessTheHerdSwapsAtOnce"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\ts.cfg.Pause(ctx)\n\t\t_, _ = s.Reelect(ctx)\n", "\t\t_ = sleep.For(ctx, time.Duration(s.cfg.ID%2000)*time.Millisecond)\n\t\tif crashed, err := s.LeaderCrashed(ctx); err == nil && crashed {\n\t\t\t_, _ = s.Reelect(ctx)\n\t\t}\n"}},
	{name: "003: of two late followers one wins", test: test("./lab/article003/versioncas", "TestArticleFaultTwoFollowersWinInARow"), patch: patch{
		"lab/article003/versioncas/article.go", "\t_, ticked, err := s.look(ctx)\n", "\tversion, ticked, err := s.look(ctx)\n\ts.judged.Store(version)\n"}, more: []patch{{"lab/article003/versioncas/article.go", "\treturn s.electing(ctx, version)\n", "\t_ = version\n\treturn s.electing(ctx, s.judged.Load())\n"}, {"lab/article003/versioncas/article.go", "\tswaps   atomic.Int64 // tries to win\n", "\tswaps   atomic.Int64 // tries to win\n\tjudged  atomic.Int64\n"}}},
	{name: "003: of late followers in a story one wins", test: test("./lab/article003/versioncas", "TestLate_ArticleDeposesLivingLeadersAndElectsTwice"), patch: patch{
		"lab/article003/versioncas/article.go", "\t_, ticked, err := s.look(ctx)\n", "\tversion, ticked, err := s.look(ctx)\n\ts.judged.Store(version)\n"}, more: []patch{{"lab/article003/versioncas/article.go", "\treturn s.electing(ctx, version)\n", "\t_ = version\n\treturn s.electing(ctx, s.judged.Load())\n"}, {"lab/article003/versioncas/article.go", "\tswaps   atomic.Int64 // tries to win\n", "\tswaps   atomic.Int64 // tries to win\n\tjudged  atomic.Int64\n"}}},
	{name: "003: a living leader is not deposed", test: test("./lab/article003/versioncas", "TestArticleFaultALivingLeaderIsDeposed"), patch: patch{
		"lab/article003/versioncas/article.go", "\t_, ticked, err := s.look(ctx)\n", "\tversion, ticked, err := s.look(ctx)\n\ts.judged.Store(version)\n"}, more: []patch{{"lab/article003/versioncas/article.go", "\treturn s.electing(ctx, version)\n", "\t_ = version\n\treturn s.electing(ctx, s.judged.Load())\n"}, {"lab/article003/versioncas/article.go", "\tswaps   atomic.Int64 // tries to win\n", "\tswaps   atomic.Int64 // tries to win\n\tjudged  atomic.Int64\n"}}},
	{name: "003: the repaired swap is from any version", test: test("./lab/article003/versioncas", "TestArticleRepairedLateCandidateMatchesNothing"), patch: patch{
		"lab/article003/versioncas/sql/win.sql", "AND version = ?", "AND ? >= 0"}, more: []patch{{"lab/article003/versioncas/sql/win_expired.sql", "AND version = ?\n", "AND ? >= 0\n"}}},
	{name: "003: the repaired swap deposes living leaders", test: test("./lab/article003/versioncas", "TestLate_RepairedDeposesNoLivingLeader"), patch: patch{
		"lab/article003/versioncas/sql/win.sql", "AND version = ?", "AND ? >= 0"}, more: []patch{{"lab/article003/versioncas/sql/win_expired.sql", "AND version = ?\n  AND TIMESTAMPDIFF(MICROSECOND, tick_time, UTC_TIMESTAMP(3)) >= lease_ms * 1000", "AND ? >= 0"}}},
	{name: "003: a winner knows its version", test: test("./lab/article003/versioncas", "TestArticleFaultLocalVersionAfterAReelection"), patch: patch{
		"lab/article003/versioncas/article.go", "\t\ts.version.Store(1)\n", "\t\ts.version.Store(initVersion + 1)\n"}, more: []patch{{"lab/article003/versioncas/article.go", "func (s *Service) electing(ctx context.Context, version int64)", "func (s *Service) electing(ctx context.Context, initVersion int64)"}, {"lab/article003/versioncas/article.go", "\tn, err := s.cfg.DB.Exec(ctx, statement(\"article_elect\"), s.cfg.ID, s.cfg.Key, version)\n", "\tversion := initVersion\n\tn, err := s.cfg.DB.Exec(ctx, statement(\"article_elect\"), s.cfg.ID, s.cfg.Key, version)\n"}}},
	{name: "003: the repaired winner does not know its version", test: test("./lab/article003/versioncas", "TestArticleRepairedWinnerKnowsItsVersion"), patch: patch{
		"lab/article003/versioncas/swap.go", "\t\ts.version = number\n", "\t\ts.version = 1\n"}},
	{name: "003: a restarted cluster elects", test: test("./lab/article003/versioncas", "TestArticleFaultARestartedClusterCannotElect"), patch: patch{
		"lab/article003/versioncas/article.go", "\tif _, _, err := s.look(ctx); err != nil {\n\t\treturn false, err\n\t}\n\treturn s.electing(ctx, 0)\n", "\tversion, _, err := s.look(ctx)\n\tif err != nil {\n\t\treturn false, err\n\t}\n\treturn s.electing(ctx, version)\n"}},
	{name: "003: a tick's age is by the database's clock", test: test("./lab/article003/versioncas", "TestArticleFaultAFollowersClockDeposes"), patch: patch{
		"lab/article003/versioncas/article.go", "return s.cfg.Now().Sub(ticked)", "return time.Now().Sub(ticked)"}},
	{name: "003: a tick may be late by half its period", test: test("./lab/article003/versioncas", "TestArticleFaultNoRoomForALateTick"), patch: patch{
		"lab/article003/versioncas/article.go", "> ArticleTick, nil", "> ArticleTick*3/2, nil"}},
	{name: "003: a tick is stored in milliseconds", test: test("./lab/article003/versioncas", "TestArticleFaultNoRoomForALateTick"), patch: patch{
		"lab/article003/versioncas/sql/article_table.sql", "tick_time   datetime     NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "tick_time   datetime(3)  NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)"}},
	{name: "003: the database's clock alone decides", test: test("./lab/article003/versioncas", "TestArticleRepairedComparesNoClocks"), patch: patch{
		"lab/article003/versioncas/swap.go", "case observed >= seen.Lease && r.age >= seen.Lease:", "case r.age >= seen.Lease:"}},

	// 004: locks and leaders on ZooKeeper.
	{name: "004: two buyers hold the lock", test: test("./lab/article004/zklatch", "TestArticleTheShop"), patch: patch{
		"lab/article004/zklatch/queue.go", "if at == 0 {", "if at <= 1 {"}},
	{name: "004: without a lock the stock moves as it should", test: test("./lab/oversell", "TestArticleWithoutALockEveryBuyerSucceeds"), patch: patch{
		"lab/oversell/sale.go", "return true }, write: w.shop.write,", "return true }, write: w.shop.take,"}},
	{name: "004: each waiter watches the first", test: test("./lab/article004/zklatch", "TestArticleOneWaiterIsWokenAndNotTheHerd"), patch: patch{
		"lab/article004/zklatch/queue.go", "return names[at-1], false", "return names[0], false"}},
	{name: "004: the queue is in the order of ids", test: test("./lab/article004/zklatch", "TestArticleFair"), patch: patch{
		"lab/article004/zklatch/queue.go", "return cmp.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):])", "return cmp.Compare(a, b)"}},
	{name: "004: the first release releases", test: test("./lab/article004/zklatch", "TestArticleReentrantWithACount"), patch: patch{
		"lab/article004/zklatch/mutex.go", "p, last := m.place, m.count == 0", "p, last := m.place, true"}},
	{name: "004: a created node is not looked for after a lost reply", test: test("./lab/article004/zklatch", "TestArticleALostReplyOfACreateIsRecognised"), patch: patch{
		"lab/article004/zklatch/queue.go", "path, err = q.c.find(ctx, q.dir, p.id)", "path, err = \"\", nil"}, more: []patch{{
		"lab/article004/zklatch/queue.go", "\t\tq.c.discard(q.dir, p.id) // it may appear later, at a server that lags behind\n", ""}}},
	{name: "004: a time limit leaves the node", test: test("./lab/article004/zklatch", "TestArticleATimeLimitDeletesTheNode"), patch: patch{
		"lab/article004/zklatch/queue.go", "\t\t\tq.c.discard(p.dir, p.id)\n\t\t}\n\t\tif !errors.Is", "\t\t}\n\t\tif !errors.Is"}},
	{name: "004: a lost session ends the wait", test: test("./lab/article004/zklatch", "TestArticleSessionLossRetriesFromTheStart"), patch: patch{
		"lab/article004/zklatch/queue.go", "\t\tif !errors.Is(err, ErrPlaceLost) {\n\t\t\treturn place{}, err", "\t\tif err != nil {\n\t\t\treturn place{}, err"}},
	{name: "004: a release is tried once", test: test("./lab/article004/zklatch", "TestArticleAReleaseIsRetriedUntilDone"), patch: patch{
		"lab/article004/zklatch/client.go", "\t\t\tc.log.Debug(\"will try again\", \"to\", what, \"error\", err)\n", "\t\t\tc.log.Debug(\"given up\", \"what\", what)\n\t\t\treturn\n"}},
	{name: "004: a revocation is forced", test: test("./lab/article004/zklatch", "TestArticleRevocationIsByAgreement"), patch: patch{
		"lab/article004/zklatch/revoke.go", "\tif err != nil {\n\t\treturn fmt.Errorf(\"ask for", "\t_ = c.Delete(ctx, path, AnyVersion)\n\tif err != nil {\n\t\treturn fmt.Errorf(\"ask for"}},
	{name: "004: the semaphore mutex is reentrant", test: test("./lab/article004/zklatch", "TestArticleTheSemaphoreMutexIsNotReentrant"), patch: patch{
		"lab/article004/zklatch/semaphore.go", "\tp, err := s.queue.stand(ctx)\n", "\tif len(s.held) == 1 {\n\t\treturn nil\n\t}\n\tp, err := s.queue.stand(ctx)\n"}},
	{name: "004: a writer does not wait for readers", test: test("./lab/article004/zklatch", "TestArticleManyReadOrOneWrites"), patch: patch{
		"lab/article004/zklatch/readwrite.go", "c.mutex(path, writeKind, data, oneAtATime)", "c.mutex(path, writeKind, data, func([]string, int) (string, bool) { return \"\", true })"}},
	{name: "004: the second in the queue leads, too", test: test("./lab/article004/zklatch", "TestArticleThereIsOneLeaderAndItsLossIsNoticed"), patch: patch{
		"lab/article004/zklatch/queue.go", "if at == 0 {", "if at <= 1 {"}},
	{name: "004: a silent close notifies", test: test("./lab/article004/zklatch", "TestArticleCloseIsSilentOrNotifies"), patch: patch{
		"lab/article004/zklatch/latch.go", "if led && ending == Notifying {", "if led {"}},
	{name: "004: hasLeadership does not look at the clock", test: test("./lab/article004/zklatch", "TestArticleASilentServerEndsTheLeadershipByOurClock"), patch: patch{
		"lab/article004/zklatch/client.go", "return s.ID == id && s.Connected() && time.Now().Before(s.trustedUntil())", "return s.ID == id && s.Connected()"}, more: []patch{{
		"lab/article004/zklatch/client.go", "case <-time.After(time.Until(s.trustedUntil())):", "case <-time.After(time.Hour):"}}},
	{name: "004: a reconnect always resets", test: test("./lab/article004/zklatch", "TestArticleAReconnectComparesTheOwner"), patch: patch{
		"lab/article004/zklatch/latch.go", "whileReliable(ctx, began, l.place.session, events) {\n\t\t\treturn nil", "whileReliable(ctx, began, l.place.session, events) {\n\t\t\treturn ErrPlaceLost"}},
	{name: "004: a node of an older session counts", test: test("./lab/article004/zklatch", "TestArticleANodeOfAnOlderSessionDoesNotCount"), patch: patch{
		"lab/article004/zklatch/queue.go", "if s.ID != 0 && s.ID != p.session {", "if s.ID != 0 && s.ID < p.session {"}, more: []patch{{
		"lab/article004/zklatch/queue.go", "now.ID == p.session", "now.ID >= p.session"}}},
	{name: "004: a selector that requeues itself does not", test: test("./lab/article004/zklatch", "TestArticleASelectorLeadsByTurns"), patch: patch{
		"lab/article004/zklatch/selector.go", "\t\tif s.cfg.AutoRequeue {", "\t\tif s.cfg.AutoRequeue && s.cfg.ID == \"\" {"}},
	{name: "004: a selector that is cut off leads on", test: test("./lab/article004/zklatch", "TestArticleASelectorThatIsCutOffIsInterrupted"), patch: patch{
		"lab/article004/zklatch/selector.go", "s.mutex.Holding(s.loop.ctx)", "context.WithCancel(s.loop.ctx)"}},
	{name: "004: a policy allows one retry more", test: test("./lab/article004/zklatch", "TestArticleRetryPoliciesAllowWhatCuratorsDo"), patch: patch{
		"lab/article004/zklatch/retry.go", "if retryCount >= min", "if retryCount > min"}},
	{name: "004: the pause before a retry does not grow", test: test("./lab/article004/zklatch", "TestArticleRetryPoliciesAllowWhatCuratorsDo"), patch: patch{
		"lab/article004/zklatch/retry.go", "random(1<<(retryCount+1))", "random(1<<1)"}},
	{name: "004: a lost place starts again whatever the policy", test: test("./lab/article004/zklatch", "TestArticleALostPlaceAsksTheRetryPolicy"), patch: patch{
		"lab/article004/zklatch/queue.go", "\t\tif err := q.c.cfg.Retry.allow(ctx, retries, began, err); err != nil {\n", "\t\tif _ = q.c.cfg.Retry.allow(ctx, retries, began, err); ctx.Err() != nil {\n"}},
	{name: "004: missing parents are persistent", test: test("./lab/article004/zklatch", "TestArticleMissingParentsAreContainers"), patch: patch{
		"lab/article004/zklatch/queue.go", "q.c.makePath(ctx, q.dir, zk.FlagContainer)", "q.c.makePath(ctx, q.dir, zk.FlagPersistent)"}},
	{name: "004: a queue that is deleted during the create ends the acquisition", test: test("./lab/article004/zklatch", "TestArticleAQueueThatIsDeletedDuringTheCreateStartsAgain"), patch: patch{
		"lab/article004/zklatch/queue.go", "return place{}, ErrPlaceLost", "return place{}, err"}},
	{name: "004: the last item is taken first", test: test("./lab/article004/zklatch", "TestArticleAQueueIsTakenInOrder"), patch: patch{
		"lab/article004/zklatch/simplequeue.go", "slices.SortFunc(names, byNumber)", "slices.SortFunc(names, func(a, b string) int { return byNumber(b, a) })"}},
	{name: "004: an offer whose answer was lost is repeated", test: test("./lab/article004/zklatch", "TestSimpleDistributedQueue_LostAnswers"), patch: patch{
		"lab/article004/zklatch/simplequeue.go", "case errors.Is(err, ErrSessionExpired): // nothing was created", "case lost(err):"}},
	{name: "004: a selector leads on while its connection is broken", test: test("./lab/article004/zklatch", "TestArticleASelectorThatIsCutOffIsInterrupted"), patch: patch{
		"lab/article004/zklatch/client.go", "if s.Link != began.Link || !s.reliable(id) {", "if s.ID != id || !time.Now().Before(s.trustedUntil()) {"}},
}
