package main

// The claims of docs/articles.md, by article: each patch makes one of them false,
// and the test is the one that the claim's row names. Most are no guards of the
// cluster but the claim itself, so no scenario is played.
var articleGuards = []guard{
	// 000: election of the meta leader.
	{name: "000: two rows of one lock", test: unit{"./elector/termcas", "TestArticleOneRowPerDataCentreAndLock"}, patch: patch{
		"sql/schema/001_distribute_lock.sql", "  UNIQUE KEY uk_data_center_lock_name", "  KEY uk_data_center_lock_name"}},
	{name: "000: a candidate that lost takes itself for the leader", test: unit{"./elector/termcas", "TestArticleOneOfThreeBecomesLeader"}, patch: patch{
		"elector/termcas/win.go", "\tcase n == 1:\n\t\treturn s.won", "\tcase n >= 0:\n\t\treturn s.won"}},
	{name: "000: a beat every second second", test: unit{"./elector/termcas", "TestArticleLeaderBeats"}, patch: patch{
		"elector/round.go", "return s.sent.Add(beat - jitter) //", "return s.sent.Add(2*beat - jitter) //"}},
	{name: "000: the beat names nothing", test: unit{"./elector/termcas", "TestArticleBeatNamesOwnerTermAndBeat"}, patch: patch{
		"sql/lock/renew.sql", "AND owner = ? AND term = ? AND term_duration = ?", "AND ? <> '' AND ? >= 0 AND ? >= 0"}},
	{name: "000: the update competes whatever the beat", test: unit{"./elector/termcas", "TestArticleSwapFromAnOldReadingMatchesNothing"}, patch: patch{
		"sql/lock/win_expired.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "000: the database's time is not asked", test: unit{"./elector/termcas", "TestArticleDatabaseTimeDecidesTheLease"}, patch: patch{
		"sql/lock/win_expired.sql", "AND TIMESTAMPDIFF(MICROSECOND, gmt_modified, UTC_TIMESTAMP(3)) >= duration * 1000", ""}},
	{name: "000: a win raises the term by two", test: unit{"./elector/termcas", "TestArticleOfTwoFollowersOneMatches"}, patch: patch{
		"sql/lock/win_expired.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}},
	{name: "000: nothing is called when a leadership ends", test: unit{"./elector/termcas", "TestArticleListenersAreNotifiedOfBoth"}, patch: patch{
		"elector/leadership.go", "e.feed.put(Change{Term: l.term, Why: why.Error()})", ""}},
	{name: "000: an observer competes", test: unit{"./elector/termcas", "TestArticleObserverOnlyReads"}, patch: patch{
		"elector/termcas/strategy.go", "\tif me.Observer {", "\tif me.Observer && row.number > 0 {"}},
	{name: "000: a killed leader is followed with term + 2", test: unit{"./meta", "TestArticleKillTheLeaderTwice"}, patch: patch{
		"elector/termcas/win.go", "max(r.number, me.Highest) + 1,", "max(r.number, me.Highest) + 2,"}, more: []patch{
		{"sql/lock/win_witness.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}, {"sql/lock/win_expired.sql", "GREATEST(term, ?) + 1", "GREATEST(term, ?) + 2"}}},
	{name: "000: meta forgets the sessions", test: unit{"./meta", "TestArticleMetaKnowsSessionsAndData"}, patch: patch{
		"meta/roster.go", "\t\tnodes = append(nodes, *r.nodes[name])\n", "\t\tif r.nodes[name].member.Role == \"session\" {\n\t\t\tcontinue\n\t\t}\n\t\tnodes = append(nodes, *r.nodes[name])\n"}},
	{name: "000: a follower does not name the leader", test: unit{"./meta", "TestArticleAFollowerNamesTheLeader"}, patch: patch{
		"meta/leader.go", "return nil, wire.NotLeader(name, address)", "return nil, wire.NotLeader(name, address[:0])"}},
	{name: "000: another function of the name", test: unit{"./slot", "TestOf_AgreesWithOriginal"}, patch: patch{
		"slot/of.go", "\t\tsum = -sum\n", "\t\tsum = ^sum\n"}},

	// 000, the profile sofa.
	{name: "000: sofa with a warm-up of three seconds", test: unit{"./cmd/meta", "TestProfileSofaHasTheOriginalsTimings"}, patch: patch{
		"cmd/meta/database.go", "c.WarmUp, c.Limits = 30*time.Second", "c.WarmUp, c.Limits = 3*time.Second"}},
	{name: "000: sofa's lease of 20 s ends after 20 s", test: unit{"./elector/termcas", "TestArticleSofaLeaseOf20SecondsIs21"}, patch: patch{
		"sql/lock/sofa_win.sql", "TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) > duration / 1000", "TIMESTAMPDIFF(SECOND, gmt_modified, UTC_TIMESTAMP()) >= duration / 1000"}, more: []patch{{
		"elector/termcas/sofa.go", "case r.age > r.lease:", "case r.age >= r.lease:"}}},
	{name: "000: sofa renews in the last second", test: unit{"./elector/termcas", "TestArticleSofaInLastSecondNoNodeRenewsOrWins"}, patch: patch{
		"sql/lock/sofa_beat.sql", "UTC_TIMESTAMP()) < duration / 1000", "UTC_TIMESTAMP()) <= duration / 1000"}},
	{name: "000: sofa's second insert takes the row over", test: unit{"./elector/termcas", "TestArticleSofaInsertChangesNothingTwice"}, patch: patch{
		"sql/lock/sofa_insert.sql", "ON DUPLICATE KEY UPDATE id = id", "ON DUPLICATE KEY UPDATE owner = VALUES(owner)"}},
	{name: "000: sofa's update competes whatever the beat", test: unit{"./elector/termcas", "TestArticleSofaOfTwoUpdatesOneMatches"}, patch: patch{
		"sql/lock/sofa_win.sql", "AND term_duration = ?", "AND ? >= 0"}},
	{name: "000: sofa gives the row back", test: unit{"./elector/termcas", "TestArticleSofaHasNoResignation"}, patch: patch{
		"elector/termcas/sofa.go", "Resign(context.Context, elector.Term) error {\n\ts.won = elector.Term{}\n\treturn nil",
		"Resign(ctx context.Context, _ elector.Term) error {\n\ts.won = elector.Term{}\n\t_, err := s.cfg.DB.Exec(ctx, \"UPDATE distribute_lock SET gmt_modified = DATE_SUB(gmt_modified, INTERVAL 1 HOUR)\")\n\treturn err"}},
	{name: "000: sofa lets the next node win after a resignation", test: unit{"./elector/termcas", "TestSofaConformance"}, patch: patch{
		"elector/termcas/sofa.go", "Resign(context.Context, elector.Term) error {\n\ts.won = elector.Term{}\n\treturn nil",
		"Resign(ctx context.Context, _ elector.Term) error {\n\ts.won = elector.Term{}\n\t_, err := s.cfg.DB.Exec(ctx, \"UPDATE distribute_lock SET gmt_modified = DATE_SUB(gmt_modified, INTERVAL 1 HOUR)\")\n\treturn err"}},
	{name: "000: a forced refresh begins a term", test: unit{"./elector/termcas", "TestArticleSofaForceRefreshMakesTwoOwnersOfOneTerm"}, patch: patch{
		"sql/lock/sofa_refresh.sql", "SET owner = ?,", "SET term = term + 1, owner = ?,"}},
	{name: "000: sofa recognises a win whose answer was lost", test: unit{"./elector/termcas", "TestArticleSofaWinWithLostAnswerWaitsForLease"}, patch: patch{
		"elector/termcas/sofa.go", "\tcase err != nil:\n\t\treturn elector.Term{}, fmt.Errorf(\"outcome of term", "\tcase err != nil:\n\t\tif now, _ := s.look(ctx); now.owner == me.ID.String() {\n\t\t\ts.won = elector.Term{Number: now.number, Leader: me.ID, Address: me.Address, Lease: me.Lease, Cause: cause}\n\t\t\treturn s.won, nil\n\t\t}\n\t\treturn elector.Term{}, fmt.Errorf(\"outcome of term"}},

	// 002: lossless operations.
	{name: "002: a client that reconnects forgets its subscriptions", test: unit{"./session", "TestArticleClientReplaysAtAnotherSession"}, patch: patch{
		"client/link.go", "\tl.subscribes = c.sortedSubs()\n", ""}},
	{name: "002: a stopping session is not marked first", test: unit{"./session", "TestArticleSessionStopsInOrder"}, patch: patch{
		"session/stop.go", "\t\t\t{Name: \"mark draining\", Do: func(ctx context.Context) error { return s.markDraining(ctx, until) }},\n", ""}},
	{name: "002: clients that leave a session count as gone", test: unit{"./session", "TestArticleLeavingClientsAreNotTakenForGone"}, patch: patch{
		"client/connect.go", "\tpause := time.Duration(0)\n\tfor {\n\t\tnext, err := c.seekOther", "\tpause := time.Duration(0)\n\tc.leave(old)\n\tc.sleep(ctx, 100*time.Millisecond)\n\tfor {\n\t\tnext, err := c.seekOther"}, more: []patch{{
		"session/clients.go", "until: now.Add(conn.linger), asked", "until: now, asked"}}},
	{name: "002: a data node stops with its slots", test: unit{"./data", "TestArticleAStopKeepsItsOrder"}, patch: patch{
		"data/stop.go", "\t\t\t\t{Name: \"hand the slots over\", Do: s.handOver},\n", ""}},
	{name: "002: all slots leave at once", test: unit{"./slot", "TestArticleDrain_SixteenSlotsAtOnceByDefault"}, patch: patch{
		"slot/input.go", "FollowerMoves: 32, Drains: 16}", "FollowerMoves: 32, Drains: MaxSlots}"}},
	{name: "002: slots leave in another order", test: unit{"./slot", "TestArticleDrainSlotBySlot"}, patch: patch{
		"slot/rebalance.go", "\tfor _, s := range a.t.Slots {\n\t\tif inProgress >=", "\tfor i := range a.t.Slots {\n\t\ts := a.t.Slots[len(a.t.Slots)-1-i]\n\t\tif inProgress >="}},
	{name: "002: nothing is removed from the blacklist", test: unit{"./meta", "TestArticleBlacklistHandlerForBothRoles"}, patch: patch{
		"meta/operate.go", "set, changed := a.black.Remove(name, a.nextEpoch())\n\tif !changed {", "_, changed := a.black.Remove(name, a.nextEpoch())\n\tset := a.black\n\tif !changed {"}},
	{name: "002: beats renew no lease", test: unit{"./meta", "TestArticleBeatsRenewAndCarryVersionedLists"}, patch: patch{
		"meta/members.go", "\t\tr.leases.Renew(st.id.Name, st.id, at, r.nodeLease)\n\t\tr.lastBeat = at\n", "\t\tr.lastBeat = at\n"}},
	{name: "002: a client sends nothing that was queued before it connected", test: unit{"./session", "TestArticleClientWorkerSendsWhatIsQueued"}, patch: patch{
		"client/link.go", "\tfor _, p := range c.sorted() {\n\t\tl.queue(p)\n", "\tfor _, p := range c.sorted() {\n\t\tif p.accepted > 0 {\n\t\t\tl.queue(p)\n\t\t}\n"}},
	{name: "002: a data node leaves the blacklist before it registers", test: unit{"./data", "TestArticleTheLastStepOfAStartLeavesTheBlacklist"}, patch: patch{
		"data/server.go", "if s.Register(ctx) != nil || s.meta.Restore(ctx) != nil {", "if s.meta.Restore(ctx) != nil || s.Register(ctx) != nil {"}},
	{name: "002: a session leaves the blacklist before it takes clients", test: unit{"./session", "TestArticleLeavesTheBlacklistLast"}, patch: patch{
		"session/server.go", "\ts.drain.open()\n", "\t_ = s.meta.Restore(ctx)\n\ts.drain.open()\n"}},
	{name: "002: a task that failed is not retried", test: unit{"./data", "TestArticleALostSessionsTaskIsRetriedAndOthersAreNotHeldUp"}, patch: patch{
		"data/diff.go", "if err == nil || ctx.Err() != nil || !j.fence {", "if err == nil || ctx.Err() != nil || j.fence {"}, more: []patch{{
		"data/migration.go", "\tdelete(m.pending, session)\n", ""}}},
	{name: "002: a node serves before it has the data", test: unit{"./data", "TestArticleANodeThatComesSynchronisesBeforeItServes"}, patch: patch{
		"data/migrate.go", "if m.phase == applying && m.r.reached(m.sourceEpoch, m.position) {", "if m.phase == applying || m.phase == finishing {"}, more: []patch{{
		"slot/row.go", "return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch)", "return a.report(s.ID, n).caughtUpWith(s.LeaderEpoch) || len(s.Followers) < 100"}}},
	{name: "002: a successor serves without the source's last changes", test: unit{"./data", "TestHandOver_SuccessorServesAtSourcesLastPosition"}, patch: patch{
		"data/migrate.go", "if m.phase == applying && m.r.reached(m.sourceEpoch, m.position) {", "if m.phase == applying {"}},
	{name: "002: an old table's leader goes on answering", test: unit{"./data", "TestArticleTwoTablesMayCoexist"}, patch: patch{
		"data/replica.go", "\t\treturn wirev1.Access_ACCESS_MOVED, conclave.Epoch{}\n", "\t\treturn wirev1.Access_ACCESS_ACCEPT, r.epoch\n"}},
	{name: "002: a table that changed is not sent", test: unit{"./meta", "TestArticleTwoTablesCoexistBriefly"}, patch: patch{
		"meta/join.go", "\t\tcase <-updated:\n", "\t\tcase <-updated:\n\t\t\t<-keepAlive.C\n"}},
	{name: "002: a lost slot is read before the sessions have answered", test: unit{"./data", "TestArticleALostSlotIsNotReadUntilAllSessionsWereHeard"}, patch: patch{
		"data/migrate.go", "if !m.answered[n] && !s.givenUp(m, n, now) {\n\t\t\tout = append(out, n)", "if !m.answered[n] && n.IsZero() {\n\t\t\tout = append(out, n)"}},
	{name: "002: sessions push what is left of a lost slot", test: unit{"./session", "TestArticleSessionsReplayWhatDataLost"}, patch: patch{
		"data/replica.go", "case r.state == slot.Migrating && !writes:", "case r.state == slot.Migrating && !writes && r.store == nil:"}},
	{name: "002: a leader compares with no session", test: unit{"./data", "TestRepair_AddsWhatWritesMissed"}, patch: patch{
		"data/repair.go", "\t\t\t\tif s.owners.alive(session) {", "\t\t\t\tif s.owners.alive(session) && epoch.IsZero() {"}},
	{name: "002: a follower does not compare its copy", test: unit{"./data", "TestCompare_FollowerThatLostACopyLoadsItAgain"}, patch: patch{
		"data/follow.go", "if leaders == nil ||", "if leaders == nil || leaders != nil ||"}},
	{name: "002: a node that starts is sent no configuration", test: unit{"./meta", "TestConfig_ReachesEveryNodeAndOutlivesItsLeader"}, patch: patch{
		"wire/state.go", "if EpochIn(have.GetConfig()).Less(s.Config.Epoch) {", "if EpochIn(have.GetConfig()).Less(s.Config.Epoch) && have.GetConfig().GetTerm() > 0 {"}},

	// 004: locks and leaders on ZooKeeper.
	{name: "004: two buyers hold the lock", test: unit{"./elector/zklatch", "TestArticleTheShop"}, patch: patch{
		"elector/zklatch/queue.go", "return upTo(1)(names, at)", "return upTo(2)(names, at)"}},
	{name: "004: without a lock the stock moves as it should", test: unit{"./lab/oversell", "TestArticleWithoutALockEveryBuyerSucceeds"}, patch: patch{
		"lab/oversell/ways.go", "return open{}, nil", "return condition{}, nil"}},
	{name: "004: each waiter watches the first", test: unit{"./elector/zklatch", "TestArticleOneWaiterIsWokenAndNotTheHerd"}, patch: patch{
		"elector/zklatch/queue.go", "return names[at-n], false", "return names[0], false"}},
	{name: "004: the queue is in the order of ids", test: unit{"./elector/zklatch", "TestArticleFair"}, patch: patch{
		"elector/zklatch/queue.go", "return cmp.Compare(numberOf(a), numberOf(b))", "return cmp.Compare(a, b)"}},
	{name: "004: the first release releases", test: unit{"./elector/zklatch", "TestArticleReentrantWithACount"}, patch: patch{
		"elector/zklatch/mutex.go", "p, last, stopWatching := m.place, m.count == 0, m.stopWatching", "p, last, stopWatching := m.place, true, m.stopWatching"}},
	{name: "004: a created node is not looked for after a lost reply", test: unit{"./elector/zklatch", "TestArticleALostReplyOfACreateIsRecognised"}, patch: patch{
		"elector/zklatch/queue.go", "\t\t\tif path, err = q.find(ctx, p.id); err != nil {", "\t\t\tif path = \"\"; q.dir == \"\" {"}, more: []patch{{
		"elector/zklatch/queue.go", "\t\t\t\tq.c.discardByID(q.dir, p.id) // it may appear later, at a server that lags behind\n", ""}}},
	{name: "004: a time limit leaves the node", test: unit{"./elector/zklatch", "TestArticleATimeLimitDeletesTheNode"}, patch: patch{
		"elector/zklatch/queue.go", "\t\tq.c.discardByID(p.dir, p.id)\n\t\tif !errors.Is(err, errPlaceLost) {", "\t\tif !errors.Is(err, errPlaceLost) {"}},
	{name: "004: a lost session ends the wait", test: unit{"./elector/zklatch", "TestArticleSessionLossRetriesFromTheStart"}, patch: patch{
		"elector/zklatch/queue.go", "\t\tif !errors.Is(err, errPlaceLost) {\n\t\t\treturn place{}, err", "\t\tif err != nil {\n\t\t\treturn place{}, err"}},
	{name: "004: a release is tried once", test: unit{"./elector/zklatch", "TestArticleAReleaseIsRetriedUntilDone"}, patch: patch{
		"elector/zklatch/client.go", "\t\tc.log.Debug(\"will try again\", \"to\", what, \"error\", err)\n", "\t\tif pause > 10*time.Millisecond {\n\t\t\tc.log.Debug(\"given up\", \"what\", what)\n\t\t\treturn\n\t\t}\n"}},
	{name: "004: a revocation is forced", test: unit{"./elector/zklatch", "TestArticleRevocationIsByAgreement"}, patch: patch{
		"elector/zklatch/revoke.go", "\tif _, err := c.tree.Set(ctx, path, revokeData, AnyVersion); err != nil {", "\t_, err := c.tree.Set(ctx, path, revokeData, AnyVersion)\n\tc.discard(path)\n\tif err != nil {"}},
	{name: "004: the semaphore mutex is reentrant", test: unit{"./elector/zklatch", "TestArticleTheSemaphoreMutexIsNotReentrant"}, patch: patch{
		"elector/zklatch/semaphore.go", "\tp, err := s.queue.stand(ctx)\n", "\tif len(s.places) == 1 {\n\t\treturn nil\n\t}\n\tp, err := s.queue.stand(ctx)\n"}},
	{name: "004: a writer does not wait for readers", test: unit{"./elector/zklatch", "TestArticleManyReadOrOneWrites"}, patch: patch{
		"elector/zklatch/readwrite.go", "c.mutex(path, writeKind, kinds, data, oneAtATime)", "c.mutex(path, writeKind, kinds, data, upTo(9))"}},
	{name: "004: the second in the queue leads, too", test: unit{"./elector/zklatch", "TestArticleThereIsOneLeaderAndItsLossIsNoticed"}, patch: patch{
		"elector/zklatch/latch.go", "\t\tl.lead(mayGo)\n", "\t\tl.lead(err == nil)\n"}},
	{name: "004: a silent close notifies", test: unit{"./elector/zklatch", "TestArticleCloseIsSilentOrNotifies"}, patch: patch{
		"elector/zklatch/latch.go", "if led && ending == Notifying {", "if led {"}},
	{name: "004: hasLeadership does not look at the clock", test: unit{"./elector/zklatch", "TestArticleASilentServerEndsTheLeadershipByOurClock"}, patch: patch{
		"elector/zklatch/client.go", "return s.ID == id && s.Connected() && time.Now().Before(c.trustedUntil(s))", "return s.ID == id && s.Connected()"}},
	{name: "004: a reconnect always resets", test: unit{"./elector/zklatch", "TestArticleAReconnectComparesTheOwner"}, patch: patch{
		"elector/zklatch/latch.go", "case err == nil && stat.Owner == s.ID:", "case err == nil && stat.Owner == s.ID+1:"}},
	{name: "004: a selector that requeues itself does not", test: unit{"./elector/zklatch", "TestArticleASelectorLeadsByTurns"}, patch: patch{
		"elector/zklatch/selector.go", "\t\tif s.cfg.AutoRequeue {", "\t\tif s.cfg.AutoRequeue && s.cfg.ID == \"\" {"}},
	{name: "004: a selector that is cut off leads on", test: unit{"./elector/zklatch", "TestArticleASelectorThatIsCutOffIsInterrupted"}, patch: patch{
		"elector/zklatch/selector.go", "\tctx, cancel := s.mutex.Holding(ctx)\n\tdefer cancel()\n", ""}},
	{name: "004: an old term's write is accepted", test: unit{"./elector/zklatch", "TestConformance"}, patch: patch{
		"elector/zklatch/record.go", "if r.Number != term || r.Leader != owner.String() || r.Resigned {", "if r.Number < term {"}},
}
