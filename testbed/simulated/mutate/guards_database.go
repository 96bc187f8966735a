package main

// The guards of a slow, busy or restricted database.
var databaseGuards = []guard{
	{name: "a connection has the time of a statement", by: on("a-database-far-away"), patch: patch{
		"sql/open.go", "o.Connect = 6 * o.Deadline", "o.Connect = o.Deadline"}},
	{name: "connecting counts as the statement's time", test: unit{"./sql", "TestConnect_TakesLongerThanAStatementMay"}, patch: patch{
		"sql/limit.go", "if !ok || !l.timer.Stop() {", "if !ok || l != nil {"}},
	{name: "statements that were given up wait for ever", test: unit{"./sql", "TestBackup_AbandonedStatementsEndInTheServer"}, patch: patch{
		"sql/settings.go", `fmt.Sprintf("lock_wait_timeout = %d", wait), true}`, `"lock_wait_timeout = 31536000", true}`}},
	{name: "a meta starts on an older schema", test: unit{"./cmd/meta", "TestStart_NeedsAMigratedDatabase"}, patch: patch{
		"sql/migrate.go", "if want := SchemaVersion(); have < want {\n\t\tif have < 0 {", "if want := SchemaVersion(); have < want-99 {\n\t\tif have < 0 {"}},
	{name: "metas of a local cluster start before the migration", test: unit{"./testbed/local/supervisor", "TestMigration_ComesBeforeTheMetas"}, patch: patch{
		"testbed/local/supervisor/cluster.go", "if metas == (ch.spec.Role == roleMeta) {", "if !metas {"}},
	{name: "the embedded server writes files", test: unit{"./internal/devdb", "TestRefusedStatements_PreparedFromText"}, patch: patch{
		"internal/devdb/server.go", "\trefuseFiles(s.engine)\n", ""}},
	{name: "the embedded server reads files", test: unit{"./internal/devdb", "TestRefusedStatements_FailWith1235"}, patch: patch{
		"internal/devdb/functions.go", "\tdefine(\"load_file\", 1, types.LongBlob, noLoadFile)\n", ""}},
	{name: "the database of a cluster with a token has no password", test: unit{"./testbed/local/supervisor", "TestSecrets_AreReadableByTheirOwnerOnly"}, patch: patch{
		"testbed/local/supervisor/plan.go", "if cfg.Token != \"\" || cfg.OwnTokens { // what", "if cfg.Token == \"never\" { // what"}},
}
