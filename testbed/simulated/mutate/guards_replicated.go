package main

// The guards of a database whose servers do not all show the same.
var replicatedGuards = []guard{
	{name: "what was read before the seal is kept", test: unit{"./meta", "TestSeal_AfterAnOldReadLosesNothing"}, patch: patch{
		"meta/seal.go", "if err := a.readSealed(ctx); err != nil {\n\t\t\treturn err\n\t\t}",
		"for kind, row := range a.rows {\n\t\t\trow.Term, row.Seq, row.Nonce = a.fence.Term, seq, nonce\n\t\t\ta.rows[kind] = row\n\t\t}"}},
	{name: "a term that began with an old read goes on", test: unit{"./meta", "TestSeal_AfterAnOldReadLosesNothing"}, patch: patch{
		"meta/seal.go", "case row.Body != a.rows[kind].Body:", "case row.Term == 0:"}},
	{name: "a primary without a quorum is used", test: unit{"./sql", "TestMember_WritableInGroup"}, patch: patch{
		"sql/member.go", "case 2*reachable <= len(m.group):", "case reachable < 0:"}},
	{name: "a group of a minority of the DSN's hosts is used", test: unit{"./sql", "TestMember_WritableInGroup"}, patch: patch{
		"sql/member.go", "case 2*reachable <= hosts:", "case hosts < 0:"}},
	{name: "a group with several primaries is used", test: unit{"./sql", "TestMember_WritableInGroup"}, patch: patch{
		"sql/member.go", "mode != \"ON\" {", "mode == \"\" {"}},
	{name: "a Galera cluster that ignores splits is used", test: unit{"./sql", "TestMember_WritableInGalera"}, patch: patch{
		"sql/member.go", "case \"\", \"false\",", "case \"\", \"true\", \"yes\", \"false\","}},
	{name: "a server that the others have left goes on being the writer", test: unit{"./sql", "TestPinned_RecheckNoticesThatTheOthersHaveLeft"}, patch: patch{
		"sql/pinned.go", "return m.writable(len(p.db.hosts.names))", "_ = m\n\t\treturn nil"}},
	{name: "a node that an operator has made read-only is used", test: unit{"./sql", "TestMember_ReadOnlyIsNotTheWriter"}, patch: patch{
		"sql/member.go", "case \"\", \"OFF\":", "case \"\", \"OFF\", \"ON\":"}},
	{name: "a witness stays with the former primary", test: unit{"./sql", "TestHosts_FormerWriterIsLeft"}, patch: patch{
		"sql/hosts.go", "if host != i {", "if host < 0 {"}},
}
