package main

// The guards against clients and readers that take more than their share.
var hostileGuards = []guard{
	{name: "any number of readers is answered at a time", test: unit{"./wire/serve", "TestReads_AreLimitedAtATime"}, patch: patch{
		"wire/serve/reads.go", "readsAtOnce = 64", "readsAtOnce = 1 << 20"}},
	{name: "a slow reader keeps its place", test: unit{"./wire/serve", "TestReads_SlowReaderIsBrokenOff"}, patch: patch{
		"wire/serve/reads.go", "readLimit   = 10 * time.Second", "readLimit   = time.Hour"}},
	{name: "each reader of the elections makes a query", test: unit{"./meta", "TestElections_ReadersShareOneQuery"}, patch: patch{
		"meta/elections.go", "e.reading.Do(", "new(singleflight.Group).Do("}},
	{name: "a client may leave its messages unread", test: unit{"./session", "TestOutbox_UnreadMessageEndsTheConnection"}, patch: patch{
		"session/outbox.go", "sendLimit = 30 * time.Second", "sendLimit = 1000 * time.Hour"}},
	{name: "messages may stay unread after a good-bye", test: unit{"./session", "TestUnreadMessages_EndTheConnection"}, patch: patch{
		"session/deadline.go", "		_ = d.response.SetWriteDeadline(past)\n", ""}},
	{name: "a panic of what sends to a client leaves its connection", test: unit{"./session", "TestOutbox_PanicEndsTheConnection"}, patch: patch{
		"session/outbox.go", "contain.Run(o.log, func(error) { o.cut(); o.failed() }, o.run)", "contain.Run(o.log, func(error) { o.cut() }, o.run)"}},
	{name: "a panic of what receives from a client leaves its connection", test: unit{"./session", "TestReceive_PanicEndsTheConnection"}, patch: patch{
		"session/connect.go", "contain.Run(c.config.Logger, broken, func() {", "func(_ func(error), f func()) { _ = contain.Count; f() }(broken, func() {"}},
	{name: "any number of bytes may wait for a client", test: unit{"./session", "TestOutbox_ThatExceedsItsLimitEndsTheConnection"}, patch: patch{
		"session/outbox.go", "if o.what.Exceeds() {", "if o.sending && o.ended {"}},
	{name: "lists that wait end the connection", test: unit{"./session/registry", "TestOutbox_ReaderIsSentAnyNumberOfLists"}, patch: patch{
		"session/registry/outbox.go", "	o.newest[p.ID] = waiting\n", "	o.newest[p.ID] = waiting\n	o.bytes += waiting.size()\n"}},
	{name: "any number of old lists waits with deltas", test: unit{"./session/registry", "TestOutbox_BasesAreBounded"}, patch: patch{
		"session/registry/outbox.go", "if !o.mayKeep(base) {", "if base != nil && !o.mayKeep(nil) {"}},
	{name: "what a subscription waited for that is refused, or asked for again, is kept", test: unit{"./session/registry", "TestOutbox_DropsWhatWaitedForTheSubscriptionBefore"}, patch: patch{
		"session/registry/outbox.go", "if o.Unsubscribe(p.ID); p.refusal != nil {", "if p.refusal != nil {"}},
	{name: "what an ended subscription waited for is kept", test: unit{"./session/registry", "TestOutbox_AnswersAreBounded"}, patch: patch{
		"session/registry/outbox.go", "	delete(o.newest, id)\n", ""}},
	{name: "large messages to one address do not wait for each other", test: unit{"./session", "TestLargeSends_OfOneAddressWait"}, patch: patch{
		"session/large.go", "all.used+all.waiting[0].bytes <= l.each", "all.used > 0"}},
	{name: "a connection that ends waits for its turn", test: unit{"./session", "TestOutbox_EndDoesNotWaitForTurns"}, patch: patch{
		"session/outbox.go", "if m, ended = o.answers(); ended {", "if m, ended = o.answers(); ended && m != nil {"}},
	{name: "answers wait behind lists that wait for their turn", test: unit{"./session", "TestOutbox_AnswersDoNotWaitForTurns"}, patch: patch{
		"session/outbox.go", "	change(&o.what)\n	o.changed.Set()\n", "	change(&o.what)\n"}},
	{name: "a panic while a large message is sent keeps its turn", test: unit{"./session", "TestOutbox_PanicLeavesItsTurn"}, patch: patch{
		"session/outbox.go", "	defer o.large.leave(turn)\n", ""}},
	{name: "a message may consist of empty ones", test: unit{"./wire/serve", "TestClientCodec_FieldsAreBoundedBeforeTheyAreRead"}, patch: patch{
		"wire/serve/codec.go", "if c.messages--; c.messages < 0 {", "if c.messages--; c.fields < 0 {"}},
	{name: "a client that waits to be welcomed may leave that unread", test: unit{"./session", "TestLimits_ClientThatWaitsAndDoesNotReadIsGivenUp"}, patch: patch{
		"session/connect.go", "late := time.AfterFunc(sendLimit, reading.fail)", "late := time.AfterFunc(100*sendLimit, reading.fail)"}},
	{name: "a client may have any number of registrations", test: unit{"./session/registry", "TestLimits_OfOneClient"}, patch: patch{
		"session/registry/limits.go", "owner.live >= limit:", "owner.live >= 1<<40:"}},
	{name: "a client may have any number of subscriptions", test: unit{"./session/registry", "TestLimits_OfOneClient"}, patch: patch{
		"session/registry/limits.go", "len(to.subs) >= limit {", "len(to.subs) >= 1<<40 {"}},
	{name: "repeated registrations are charged to no address", test: unit{"./session/registry", "TestLimits_RepeatedRegistrationsStayCounted"}, patch: patch{
		"session/registry/publish.go", "	r.enlist(sender)\n", ""}},
	{name: "an update cannot grow at the limit", test: unit{"./session/registry", "TestLimits_OfBytes"}, patch: patch{
		"session/registry/limits.go", "case reg.withdrawn, old != nil && !old.withdrawn:", "case reg.withdrawn:"}},
	{name: "a subscription that is asked for again counts twice", test: unit{"./session/registry", "TestLimits_RefusedSubscriptionKeepsTheOneBefore"}, patch: patch{
		"session/registry/limits.go", "	if old != nil {\n		return r.mayTake(", "	if old != nil && bytes == 0 {\n		return r.mayTake("}},
	{name: "publishers that a client brought stay charged", test: unit{"./session/registry", "TestLimits_PublishersCountUntilTheyAreShared"}, patch: patch{
		"session/registry/topic.go", "	s.to.charge(-s.own)\n	s.bytes -= s.own\n", ""}},
	{name: "what is over a limit is given up", test: unit{"./client", "TestOver_PublicationIsSentAgain"}, patch: patch{
		"client/over.go", "return wire.CodeOf(err) == wire.CodeLimitReached", "return err != nil && wire.CodeOf(err) == \"\""}},
	{name: "a newer version that waits goes with the one that is over a limit", test: unit{"./client", "TestOver_NewerVersionThatWaitsIsSent"}, patch: patch{
		"client/over.go", "if l.waiting.has(p) {", "if l.waiting.has(p) && p.version == 0 {"}},
	{name: "Close waits for what is over a limit", test: unit{"./client", "TestOver_CloseEnds"}, patch: patch{
		"client/client.go", "if p.stored.version < p.version && p.err == nil {", "if p.stored.version < p.version {"}},
	{name: "Close does not wait for what a session may have", test: unit{"./client", "TestClose_DoesNotWaitForARefusedToken"}, patch: patch{
		"client/client.go", "if c.welcomed || c.refusal == nil {", "if c.refusal == nil {"}},
	{name: "what ended connections left does not count for their address", test: unit{"./session/registry", "TestLimits_OfBytes"}, patch: patch{
		"session/registry/owner.go", "		o.account.open--\n", "		o.account.open--\n		o.account.bytes -= o.bytes\n"}},
	{name: "one address may have all connections", test: unit{"./wire/serve", "TestPlaces_OfConnections"}, patch: patch{
		"wire/serve/places.go", "p.by[address] >= p.each {", "p.by[address] >= p.all {"}},
	{name: "the embedded database waits for a login for ever", test: unit{"./internal/devdb", "TestLogin_EndsInTime"}, patch: patch{
		"internal/devdb/login.go", "loginTime   = 5 * time.Second", "loginTime   = time.Hour"}},
	{name: "the embedded database allocates what is announced before a login", test: unit{"./internal/devdb", "TestLogin_PacketsAreSmall"}, patch: patch{
		"internal/devdb/login.go", "l.left > loginPacket", "l.left > loginPacket<<9"}},
	{name: "one address may have all logins", test: unit{"./internal/devdb", "TestLogin_OldestOfAnAddressMakesRoom"}, patch: patch{
		"internal/devdb/login.go", "if places > loginPlaces {", "if places > loginPlaces<<9 {"}},
	{name: "one address may have all viewers of a console", test: unit{"./testbed/console", "TestServer_OneAddressDoesNotTakeAllViewers"}, patch: patch{
		"testbed/console/server.go", "= maxViewers / 2", "= maxViewers"}},
	{name: "one address may have all requests", test: unit{"./wire/serve", "TestPlaces_OfRequests"}, patch: patch{
		"wire/serve/places.go", "if !p.take(address) {", "if !p.take(address) && address == \"\" {"}},
	{name: "a connection is read as fast as it sends small frames", test: unit{"./wire/serve", "TestPace_BoundsSmallFramesOfOneConnection"}, patch: patch{
		"wire/serve/pace.go", "delay := c.limit.ReserveN(now, calls).DelayFrom(now)", "delay := time.Duration(0)"}},
	{name: "an address is read as fast as its connections may", test: unit{"./wire/serve", "TestPace_BoundsAnAddress"}, patch: patch{
		"wire/serve/pace.go", "delay = max(delay, c.address.limit.ReserveN(now, calls).DelayFrom(now))", "c.address.limit.ReserveN(now, calls)"}},
	{name: "what others of its address sent delays a connection", test: unit{"./wire/serve", "TestPace_DelaysNobodyForLong"}, patch: patch{
		"wire/serve/pace.go", "if since > lightAfter {", "if since < 0 {"}},
	{name: "a pause is as long as what an address owes", test: unit{"./wire/serve", "TestPace_DelaysNobodyForLong"}, patch: patch{
		"wire/serve/pace.go", "if delay = min(delay, longest); delay <= 0 {", "if delay <= 0 {"}},
	{name: "a body may arrive for ever", test: unit{"./wire/serve", "TestBodies_AreBoundedInBytesAndTime"}, patch: patch{
		"wire/serve/bodies.go", "bodyLimit = 10 * time.Second", "bodyLimit = time.Hour"}},
	{name: "a body that needs no token may be large", test: unit{"./wire/serve", "TestBodies_AreBoundedInBytesAndTime"}, patch: patch{
		"wire/serve/bodies.go", "smallBody = 64 << 10", "smallBody = 1 << 20"}},
	{name: "messages that arrived in part are not counted", test: unit{"./session", "TestLimits_UnfinishedMessagesAreBounded"}, patch: patch{
		"session/intake.go", "|| i.by[host]+bytes > i.each {", "|| i.by[host] < 0 {"}},
}
