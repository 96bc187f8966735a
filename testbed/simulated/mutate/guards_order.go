package main

// The guards of the order of service, and of the bound on what waits for data.
var orderGuards = []guard{
	{name: "a withdrawal waits behind new publications", test: unit{"./client", "TestLink_WithdrawalsAndUpdatesGoFirst"}, patch: patch{
		"client/order.go", "\t\treturn withdrawals\n", "\t\treturn others\n"}},
	{name: "updates leave no room for new publications", test: unit{"./client", "TestLink_WithdrawalsAndUpdatesGoFirst"}, patch: patch{
		"client/link.go", "share -= (limit - size) / 4", "share -= 0"}},
	{name: "what is watched waits behind what is new", test: unit{"./session/registry", "TestTake_ClassesInTheirOrder"}, patch: patch{
		"session/registry/slot.go", "\t\treturn watched\n", "\t\treturn fresh\n"}},
	{name: "what replaces something urgent waits", test: unit{"./session/registry", "TestTake_ClassesInTheirOrder"}, patch: patch{
		"session/registry/slot.go", "c.class = min(c.class, max(older.class, watched))", "c.class = max(c.class, older.class)"}},
	{name: "a class of changes may wait for ever", test: unit{"./session/registry", "TestOrder_NoClassWaitsForEver"}, patch: patch{
		"session/registry/class.go", "if n%4 == 3 {", "if n%4 == 4 {"}},
	{name: "clients do not wait for data", test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/room.go", "\tif !m.lacks(publishers) {\n\t\treturn\n\t}\n\tm.waits.Inc()", "\tif !m.lacks(publishers) || m.limit > 0 {\n\t\treturn\n\t}\n\tm.waits.Inc()"}},
	{name: "what replaces something waits for data", test: unit{"./session", "TestRoom_NewRegistrationsWait"}, patch: patch{
		"session/room.go", "return !p.GetWithdrawn() && !r.Knows(p.GetId())", "return p != nil"}},
	{name: "one slow data node delays all", test: unit{"./session/registry", "TestFull_OneSlowNodeDelaysNoOther"}, patch: patch{
		"session/registry/queue.go", "(limit+1)/2-byLeader[s.address]", "limit-byLeader[s.address]"}},
}
