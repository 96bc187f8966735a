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
		"session/outbox.go", "if o.limit > 0 && o.what.Exceeds(o.limit) {", "if o.limit < 0 && o.what.Exceeds(o.limit) {"}},
	{name: "a single large list ends its connection", test: unit{"./session/registry", "TestOutbox_BytesAreBounded"}, patch: patch{
		"session/registry/outbox.go", "(len(o.contents) > 1 || len(o.contents) == 0 || o.entries() > limit)", "(len(o.contents) > 0 || len(o.contents) == 0 || o.entries() > limit)"}},
	{name: "what an ended subscription waited for is kept", test: unit{"./session/registry", "TestOutbox_BytesAreBounded"}, patch: patch{
		"session/registry/outbox.go", "	o.drop(o.newest[id])\n	delete(o.newest, id)\n", ""}},
	{name: "large messages to one address do not wait for each other", test: unit{"./session", "TestLargeSends_OfOneAddressWait"}, patch: patch{
		"session/outbox.go", "used > 0 && used+bytes > l.each", "used > 0 && used+bytes < 0"}},
	{name: "a message may consist of empty ones", test: unit{"./wire/serve", "TestClientCodec_FieldsAreBoundedBeforeTheyAreRead"}, patch: patch{
		"wire/serve/codec.go", "if c.messages--; c.messages < 0 {", "if c.messages--; c.fields < 0 {"}},
	{name: "a client that waits to be welcomed may leave that unread", test: unit{"./session", "TestLimits_ClientThatWaitsAndDoesNotReadIsGivenUp"}, patch: patch{
		"session/connect.go", "late := time.AfterFunc(sendLimit, reading.fail)", "late := time.AfterFunc(100*sendLimit, reading.fail)"}},
	{name: "a client may have any number of registrations", test: unit{"./session/registry", "TestLimits_OfOneClient"}, patch: patch{
		"session/registry/limits.go", "owner.live >= limit:", "owner.live >= 1<<40:"}},
	{name: "a client may have any number of subscriptions", test: unit{"./session/registry", "TestLimits_OfOneClient"}, patch: patch{
		"session/registry/limits.go", "len(to.subs) >= limit {", "len(to.subs) >= 1<<40 {"}},
	{name: "what ended connections left does not count for their address", test: unit{"./session/registry", "TestLimits_OfBytes"}, patch: patch{
		"session/registry/owner.go", "		o.account.open--\n", "		o.account.open--\n		o.account.bytes -= o.bytes\n"}},
	{name: "one address may have all connections", test: unit{"./wire/serve", "TestPlaces_OfConnections"}, patch: patch{
		"wire/serve/places.go", "p.by[address] >= p.each {", "p.by[address] >= p.all {"}},
	{name: "one address may have all requests", test: unit{"./wire/serve", "TestPlaces_OfRequests"}, patch: patch{
		"wire/serve/places.go", "if !p.take(address) {", "if !p.take(address) && address == \"\" {"}},
	{name: "a body may arrive for ever", test: unit{"./wire/serve", "TestBodies_AreBoundedInBytesAndTime"}, patch: patch{
		"wire/serve/bodies.go", "bodyLimit = 10 * time.Second", "bodyLimit = time.Hour"}},
	{name: "a body that needs no token may be large", test: unit{"./wire/serve", "TestBodies_AreBoundedInBytesAndTime"}, patch: patch{
		"wire/serve/bodies.go", "smallBody = 64 << 10", "smallBody = 1 << 20"}},
	{name: "messages that arrived in part are not counted", test: unit{"./session", "TestLimits_UnfinishedMessagesAreBounded"}, patch: patch{
		"session/intake.go", "|| i.by[host]+bytes > i.each {", "|| i.by[host] < 0 {"}},
}
