package main

// The guards that keep load, and delays of the one who judges, from being taken
// for the death of others (docs/adr/0071).
var livenessGuards = []guard{
	{name: "a mass of clients is declared dead at once", test: unit{"./session", "TestLeases_MassDeathIsDeclaredALeaseLater"}, patch: patch{
		"session/leases.go", "if mass && clients > 1 {", "if mass && clients < 0 {"}},
	{name: "a mass death is put off for ever", test: unit{"./session", "TestLeases_MassDeathIsDeclaredALeaseLater"}, patch: patch{
		"session/clients.go", "if b.expected() || b.again {", "if b.expected() {"}},
	{name: "one client is a mass", test: unit{"./session", "TestLeases_OneClientIsRemovedAtTheEndOfItsLease"}, patch: patch{
		"session/leases.go", "if mass && clients > 1 {", "if mass && clients > 0 {"}},
	{name: "clients that were asked to move are put back", test: unit{"./session", "TestLeases_ExpectedEndsAreNoMassDeath"}, patch: patch{
		"session/clients.go", "if b.expected() || b.again {", "if b.again {"}},
	{name: "Close waits for a welcome", test: unit{"./client", "TestClose_EndsAtOnceWhileASessionMakesItWait"}, patch: patch{
		"client/link.go", "stopClosing := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })", "stopClosing := func() bool { return true }"}},
}
