package main

// The guards against outages of the sessions themselves.
var sessionGuards = []guard{
	{name: "an outage of all sessions counts against their clients", test: unit{"./data", "TestAnOutageOfAllSessionsRemovesNothing"}, by: on("all-sessions-are-killed", "all-sessions-are-killed@2", "all-sessions-are-paused"), patch: patch{
		"data/owners.go", "s.owners.sweep(copies, away || s.lost(), now)", "s.owners.sweep(copies, s.lost(), now)"}},
	{name: "leases end while their session is suspended", test: unit{"./session", "TestClientsOfTheOnlySessionComeBack"}, by: on("all-sessions-are-paused", "all-sessions-are-paused@2"), patch: patch{
		"session/clients.go", "if time.Since(now) > stalled {", "if time.Since(now) > 1000*stalled {"}},
	{name: "leases are not renewed when their session resumes", by: on("all-sessions-are-paused", "all-sessions-are-paused@2", "all-sessions-are-paused@3"), patch: patch{
		"session/clients.go", "if now.Sub(last) > stalled {", "if now.Sub(last) > 1000*stalled {"}},
}
