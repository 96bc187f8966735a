package main

// The guards of the order of service, and of the bound on what waits for data.
var orderGuards = []guard{
	{name: "a withdrawal waits behind new publications", test: unit{"./client", "TestLink_WithdrawalsAndUpdatesGoFirst"}, patch: patch{
		"client/order.go", "\t\treturn withdrawals\n", "\t\treturn others\n"}},
	{name: "an update of what another session holds is urgent", test: unit{"./client", "TestLink_UpdateAtAnotherSessionIsNew"}, patch: patch{
		"client/order.go", "p.acceptedBy != link", "p.acceptedBy > link"}},
	{name: "updates leave no room for new publications", test: unit{"./client", "TestLink_WithdrawalsAndUpdatesGoFirst"}, patch: patch{
		"client/send.go", "share -= (share - size) / 4", "share -= 0"}},
	{name: "what is watched waits behind what is new", by: on("new-registrations-wait"), test: unit{"./session/registry", "TestTake_ClassesInTheirOrder"}, patch: patch{
		"session/registry/slot.go", "\t\treturn watched\n", "\t\treturn fresh\n"}},
	{name: "what replaces something urgent waits", test: unit{"./session/registry", "TestTake_ClassesInTheirOrder"}, patch: patch{
		"session/registry/slot.go", "c.class = min(c.class, max(older.class, watched))", "c.class = max(c.class, older.class)"}},
	{name: "a class of changes may wait for ever", test: unit{"./session/registry", "TestOrder_NoClassWaitsForEver"}, patch: patch{
		"session/registry/class.go", "if n%4 == 3 {", "if n%4 == 4 {"}},
	{name: "an update waits behind new publications", by: on("new-registrations-wait"), patch: patch{
		"client/order.go", "\treturn updates\n", "\treturn others\n"}},
	{name: "what is urgent has no window of its own", by: on("new-registrations-wait@3"), test: unit{"./client", "TestLink_WhatIsUrgentDoesNotWaitForRoom"}, patch: patch{
		"client/window.go", "\tif class > updates {", "\tif class > others {"}},
	{name: "clients do not wait for data", test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/room.go", "!r.Full(m.limit) {\n\t\t\treturn", "!r.Full(m.limit) || m.limit > 0 {\n\t\t\treturn"}},
	{name: "what replaces something waits for data", test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/room.go", "if p.GetWithdrawn() || r.Knows(p.GetId()) {", "if p == nil {"}},
	{name: "a stream is not read while registrations of it wait", by: on("new-registrations-wait@3"), test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/waiting.go", "over := w.bytes > maxWaiting", "over := w.bytes > 0"}},
	{name: "a client may let any number of registrations wait", test: unit{"./session", "TestRoom_ClientThatSendsTooMuchIsNotRead"}, patch: patch{
		"session/waiting.go", "over := w.bytes > maxWaiting", "over := w.bytes < 0"}},
	{name: "what waits is registered over its newer version", test: unit{"./session", "TestRoom_NewerVersionReplacesTheOneThatWaits"}, patch: patch{
		"session/waiting.go", "if !ids[p.GetId()] {", "if len(ids) > 0 {"}},
	{name: "a short Write lets the next one be long", test: unit{"./session", "TestWriter_SizeFollowsTheNode"}, patch: patch{
		"session/writer.go", "case took < writeSlow/2 && sent >= most:", "case took < writeSlow/2:"}},
	{name: "a stream has megabytes on their way", test: unit{"./wire", "TestHTTP2_UnreadStreamIsBounded"}, patch: patch{
		"wire/peers.go", "MaxReceiveBufferPerStream: maxUnread", "MaxReceiveBufferPerStream: 0 * maxUnread"}},
	{name: "what is held back takes room", test: unit{"./session", "TestRoom_WhatIsHeldBackTakesNone"}, patch: patch{
		"session/registry/queue.go", "\t\t\ts.settle(c)\n\t\t\tcontinue", "\t\t\tcontinue"}},
	{name: "room that is not held back any more wakes no client", test: unit{"./session", "TestRoom_WhatIsHeldBackTakesNone"}, patch: patch{
		"session/writer.go", "if w.registry.Unsent() < unsent {", "if unsent < 0 {"}},
	{name: "what is in flight is taken out of a queue that was made again", test: unit{"./session/registry", "TestSettle_OfSlotsThatWereMadeAgain"}, patch: patch{
		"session/registry/slot.go", "for _, c := range s.pending {\n\t\tc.settled = true", "for _, c := range s.pending {\n\t\tc.settled = false"}},
	{name: "what is found of a replay blocks its stream", test: unit{"./session", "TestRoom_WhatIsFoundDoesNotBlockTheStream"}, patch: patch{
		"session/waiting.go", "bytes > most {", "bytes < 0 {"}},
	{name: "a large registration that waits blocks its stream", test: unit{"./session", "TestRoom_LargeRegistrationDoesNotBlockTheStream"}, patch: patch{
		"session/waiting.go", "case n <= maxWaiting:", "case n > 0:"}},
	{name: "a stream that has ended waits for room", test: unit{"./session", "TestWaiting_EndsWithTheStream"}, patch: patch{
		"session/connect.go", "abort := func() { reading.abort(); ends() }", "abort := func() { reading.abort() }"}},
	{name: "one slow data node delays all", test: unit{"./session/registry", "TestFull_OneSlowNodeDelaysNoOther"}, patch: patch{
		"session/registry/queue.go", "(limit+1)/2-byLeader[s.address]", "limit-byLeader[s.address]"}},
}
