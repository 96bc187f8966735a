package main

// The guards of clients that spread over the sessions again.
var spreadGuards = []guard{
	{name: "any number of clients moves in a second", test: unit{"./session", "TestBalance_SpreadsAndRests"}, patch: patch{
		"session/spread.go", "min(own-share, max(1, own/spreadShare))", "min(own-share, max(1, own))"}},
	{name: "clients that were asked count as staying", test: unit{"./session", "TestBalance_ClientThatStaysCountsAgain"}, patch: patch{
		"session/spread.go", "\t\t\town--\n", "\t\t\town -= 0\n"}},
	{name: "clients that are spread move", test: unit{"./session", "TestBalance_FewOrBalancedClientsStay"}, patch: patch{
		"session/spread.go", "own > share+max(1, share/10)", "own > share-1"}},
	{name: "clients move to sessions that take none", test: unit{"./meta", "TestOpenSessions_ThoseThatTakeClients"}, patch: patch{
		"meta/roster.go", "n.stream != nil && n.ready && !n.draining && !slices.Contains(forbidden, name) {", "n.ready {"}},
	{name: "a client moves to an address that it was not sent", test: unit{"./client", "TestMove_TriesTheNamedSessionFirst"}, patch: patch{
		"client/connect.go", "\tif at := slices.Index(reported, first); at > 0 {", "\treported = append(reported, first)\n\tif at := slices.Index(reported, first); at > 0 {"}},
}
