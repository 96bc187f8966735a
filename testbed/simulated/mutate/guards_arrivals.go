package main

// The guards of clients that come, move and go.
var arrivalGuards = []guard{
	{name: "a client that stayed is still expected to go", test: unit{"./session", "TestSpread_ClientThatStayedIsNotExpectedToGo"}, patch: patch{
		"session/spread.go", "s.clients.stays(conn)", "_ = conn"}},
	{name: "a client that has just broken off makes a mass of one that expires", test: unit{"./session", "TestLeases_ClientThatHasJustBrokenOffIsNoMass"}, patch: patch{
		"session/leases.go", "n > 0 && !b.until.After(together)", "n > 0 && !together.IsZero()"}},
	{name: "a move to a session with fewer clients has no end", test: unit{"./client", "TestMove_ToASessionWithFewerClientsHasALimit"}, patch: patch{
		"client/connect.go", "if to != \"\" {", "if to == \"nowhere\" {"}},
	{name: "who comes last is welcomed first", test: unit{"./session", "TestPlaces_AreGivenInOrder"}, patch: patch{
		"session/arrivals.go", "\tp := a.queue[0]\n\ta.queue[0] = nil\n\ta.queue = a.queue[1:]\n", "\tp := a.queue[len(a.queue)-1]\n\ta.queue = a.queue[:len(a.queue)-1]\n"}},
	{name: "a process sets up any number of connections at a time", test: unit{"./wire", "TestTCP_PacesConnections"}, patch: patch{
		"wire/network.go", "setUpAtOnce = 64", "setUpAtOnce = 1 << 16"}},
	{name: "two goroutines send on one connection", test: unit{"./session", "TestOutbox_SendsOneAfterAnother"}, patch: patch{
		"session/outbox.go", "o.sending = m != nil", "o.sending = m == nil"}},
	{name: "a part of a mass removal takes what another connection owns by now", test: unit{"./session/registry", "TestHoldings_OnlyWhatStillBelongsToTheConnection"}, patch: patch{
		"session/registry/publish.go", "return reg.owner != h.owner })", "return reg.owner == nil })"}},
	{name: "a large list is encoded for each subscriber", test: unit{"./session/registry", "TestOutbox_ListIsEncodedOnceForAllSubscribers"}, patch: patch{
		"session/registry/topic.go", "if *d.once == nil {", "if d.once != nil {"}},
}
