package main

// The guards of what an operator does: drains of the last node, acts that would
// leave a cluster that does not serve, and the announcement that the cluster stops.
var operatorGuards = []guard{
	{name: "the last session is drained", test: unit{"./meta", "TestDrain_OfTheLastSessionIsRefused"}, patch: patch{
		"meta/census.go", "n.stream != nil && n.ready && !n.draining && !forbidden(other)", "n.stream != nil"}},
	{name: "a drained session that is the last one refuses clients", by: on("drained-session-is-the-last"), test: unit{"./session", "TestDrain_OfTheSessionThatIsLeftWaits"}, patch: patch{
		"session/state.go", "case others || s.closing:", "case others || leaves:"}},
	{name: "a stop of the last session does not wait", test: unit{"./session", "TestStop_OfTheLastSessionGoesOnWhenAnotherComes"}, patch: patch{
		"session/stop.go", "case !refused:\n", "case !refused || first:\n"}},
	{name: "a client that is asked to move forgets its list", test: unit{"./session", "TestDrain_OfTheSessionThatIsLeftWaits"}, patch: patch{
		"client/connect.go", "		c.log.Debug(\"session not reached\", \"address\", address, \"error\", err)\n	}\n", "		c.log.Debug(\"session not reached\", \"address\", address, \"error\", err)\n	}\n	c.mu.Lock()\n	c.told = nil\n	c.mu.Unlock()\n"}},
}
