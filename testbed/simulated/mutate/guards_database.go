package main

// The guards of a slow, busy or restricted database.
var databaseGuards = []guard{
	{name: "a connection has the time of a statement", by: on("a-database-far-away"), patch: patch{
		"sql/open.go", "o.Connect = 6 * o.Deadline", "o.Connect = o.Deadline"}},
	{name: "connecting counts as the statement's time", test: unit{"./sql", "TestConnect_TakesLongerThanAStatementMay"}, patch: patch{
		"sql/limit.go", "if !ok || !l.timer.Stop() {", "if !ok || l != nil {"}},
	{name: "statements that were given up wait for ever", test: unit{"./sql", "TestBackup_AbandonedStatementsEndInTheServer"}, patch: patch{
		"sql/open.go", `fmt.Sprintf("lock_wait_timeout = %d", seconds)}`, `"lock_wait_timeout = 31536000"}`}},
}
