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
}
