package main

// The guards of the order of service, of the bound on what waits for data, and of
// what a client sends and sends again.
var orderGuards = []guard{
	{name: "what is watched waits behind what is new", by: on("new-registrations-wait"), test: unit{"./session/registry", "TestTake_ClassesInTheirOrder"}, patch: patch{
		"session/registry/slot.go", "\t\treturn watched\n", "\t\treturn fresh\n"}},
	{name: "an update waits behind new publications", by: on("new-registrations-wait"), patch: patch{
		"client/send.go", "\treturn updates\n", "\treturn others\n"}},
	{name: "what is urgent has no window of its own", by: on("new-registrations-wait@3"), test: unit{"./client", "TestLink_WhatIsUrgentDoesNotWaitForRoom"}, patch: patch{
		"client/send.go", "\tif class > updates {", "\tif class > others {"}},
	{name: "a stream is not read while registrations of it wait", by: on("new-registrations-wait@3"), test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/backlog.go", "over := b.bytes > b.own", "over := b.bytes > 0"}},
	{name: "a client sends all that it has at once", test: unit{"./client", "TestLink_FullSessionIsNotLeft"}, by: on("overload-by-six-times", "overload-by-six-times@2"), patch: patch{
		"client/send.go", "\tcase len(w.sent) == 0:\n\t\treturn w.size\n\tcase w.messages >= windowMessages:\n\t\treturn 0\n\t}\n", "\tcase w.messages < 1<<20:\n\t\treturn 1 << 30\n\t}\n"}},
}
