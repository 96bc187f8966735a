package main

// The guards of a database whose servers do not all show the same.
var replicatedGuards = []guard{
	{name: "what was read before the seal is kept", test: unit{"./meta", "TestSeal_AfterAnOldReadLosesNothing"}, patch: patch{
		"meta/seal.go", "if err := a.readSealed(ctx); err != nil {\n\t\t\treturn err\n\t\t}",
		"for kind, row := range a.rows {\n\t\t\trow.Term, row.Seq, row.Nonce = a.fence.Term, seq, nonce\n\t\t\ta.rows[kind] = row\n\t\t}"}},
	{name: "a term that began with an old read goes on", test: unit{"./meta", "TestSeal_AfterAnOldReadLosesNothing"}, patch: patch{
		"meta/seal.go", "case row.Body != a.rows[kind].Body:", "case row.Term == 0:"}},
}
