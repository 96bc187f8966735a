package main

// consoleGuards are those of the console.
var consoleGuards = []guard{
	{name: "the tool sends its token to addresses that metas list", test: unit{"./cmd/conclave", "TestLiveSource_BindsTheTokenToAddressesThatMetasList"}, patch: patch{
		"cmd/conclave/token.go", "rights.TokenFor(a.token, address, given)", "rights.TokenFor(a.token, address, append(given, address))"}},
	{name: "the console checks without clients", test: unit{"./testbed/console/live", "TestRecord_ChecksNothingWithoutClients"}, patch: patch{
		"testbed/console/live/record.go", "\tif err == nil {\n\t\tr.checks(ctx, rec, began)\n", "\tif true {\n\t\tr.checks(ctx, rec, began)\n"}},
	{name: "two consoles use the same names", test: unit{"./testbed/console/live", "TestRecord_NamesDifferBetweenConsoles"}, patch: patch{
		"testbed/console/live/core.go", "boot: strings.ToLower(rand.Text()[:4])", "boot: strings.ToLower(rand.Text()[:0])"}},
	{name: "an action has settled before the lease ends", test: unit{"./testbed/console/live", "TestOutcome_AwaitsTheEndOfTheLease"}, patch: patch{
		"testbed/console/live/outcome.go", "settled = lease + leaseMargin", "settled = restFor + 0*leaseMargin"}},
	{name: "the console checks what it has not read", test: unit{"./testbed/console/live", "TestTail_SaysWhenThereIsMore"}, patch: patch{
		"testbed/console/live/tail.go", "all = all && end", "all = all || end"}},
	{name: "a follower resigns by the leader", test: unit{"./testbed/console/live", "TestExplain_OnlyTheLeaderResigns"}, patch: patch{
		"testbed/console/live/act.go", "v.verb == testbed.Resign && r.Node != seen.leader.Leader", "v.verb == testbed.Resign && r.Node == \"\""}},
	{name: "a console has any number of viewers", test: unit{"./testbed/console", "TestWatch_HasPlacesForSoManyViewers"}, patch: patch{
		"testbed/console/hub.go", "if len(h.viewers) >= maxViewers {", "if len(h.viewers) >= maxViewers<<10 {"}},
	{name: "a closed client keeps its address", test: unit{"./internal/faultnet", "TestLeave_FreesTheAddress"}, patch: patch{
		"internal/faultnet/net.go", "known == name })", "known == name+\"-\" })"}},
	{name: "a stopped scenario awaits its clients", test: unit{"./testbed/console/live", "TestScoped_StoppedScenarioDoesNotAwaitItsClients"}, patch: patch{
		"testbed/console/live/scoped.go", "if s.until != nil && s.until.Err() != nil {", "if s.until != nil && s.until.Err() == nil {"}},
	{name: "what a console has cut off stays cut off", test: unit{"./testbed/containers", "TestAttach_CloseEndsItsCuts"}, patch: patch{
		"testbed/containers/cluster.go", "\tif d.found {\n\t\tcut = ", "\tif !d.found {\n\t\tcut = "}},
	{name: "an earlier list of nodes is shown as if it were true now", test: unit{"./testbed/console/live", "TestNodes_FollowTheMetaThatHoldsTheirStream"}, patch: patch{
		"testbed/console/live/shown.go", "if seen.partial || m.Leading", "if m.Leading"}},
	{name: "a recording's node keeps the stream that has ended", test: unit{"./testbed/console/recorded", "TestPlayer_NodesFollowTheMetaThatHoldsTheirStream"}, patch: patch{
		"testbed/console/recorded/streams.go", "\t\t\treturn s.end(m.From, r.At)\n", "\t\t\treturn nil\n"}},
}
