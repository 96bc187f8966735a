package main

// The guards of who may do what (docs/adr/0080-tokens-have-rights.md).
var roleGuards = []guard{
	{name: "a token of any right may do everything", test: unit{"./wire/serve", "TestRequireRight_OfEachToken"}, patch: patch{
		"wire/serve/required.go", "case valid && id.May(need):", "case valid && id.May(rights.Open):"}},
	{name: "a wrong token counts as none", test: unit{"./wire/serve", "TestRequireRight_OfEachToken"}, patch: patch{
		"wire/serve/required.go", "case token != \"\":", "case token == \"-\":"}},
	{name: "reading needs no token", test: unit{"./wire/serve", "TestRequireRight_OfEachToken"}, patch: patch{
		"wire/serve/required.go", "case need == rights.Read && c.PublicReads:", "case need == rights.Read:"}},
	{name: "a path needs no entry in the table of rights", test: unit{"./internal/node", "TestRun_PathWithoutARightEndsTheStart"}, patch: patch{
		"internal/node/base.go", "err = serve.CheckRoutes(handler)", "_ = serve.CheckRoutes(handler)"}},
	{name: "a revoked token keeps what it has open", test: unit{"./wire/serve", "TestRequireRight_RevokedTokenEndsWhatLasts"}, patch: patch{
		"wire/rights/tokens.go", "\t\th.end()\n", "\t\t_ = h\n"}},
	{name: "what is held with a token that was just revoked goes on", test: unit{"./wire/rights", "TestHold_AfterItsTokenWasRevokedEndsAtOnce"}, patch: patch{
		"wire/rights/tokens.go", "if !t.stands(h) { // a reload", "if !t.stands(h) && as.Right < Open { // a reload"}},
	{name: "a token file that cannot be read removes the tokens", test: unit{"./wire/rights", "TestReload_BadFileChangesNothing"}, patch: patch{
		"wire/rights/tokens.go", "\t\tt.report(err)\n\t\treturn\n", "\t\tt.report(err)\n\t\ts = &Set{}\n"}},
	{name: "a token file may be read by others", test: unit{"./wire/rights", "TestReadFile_RefusesWhatOthersCanRead"}, patch: patch{
		"wire/rights/stat_unix.go", "info.Mode().Perm()&0o077 != 0 &&", "info.Mode().Perm()&0o077 == 0o777 &&"}},
	{name: "a token file is read while it is written", test: unit{"./wire/rights", "TestRun_ReloadsByTimeAndSignal"}, patch: patch{
		"wire/rights/tokens.go", "if found == seen && found != read {", "if (found == seen || seen == read) && found != read {"}},
	{name: "an error of the token file shows the token", test: unit{"./wire/rights", "TestParse_NamesTheLineAndNoToken"}, patch: patch{
		"wire/rights/right.go", "fmt.Errorf(\"unknown right (want", "fmt.Errorf(\"unknown right \"+name+\" (want"}},
	{name: "the token is sent to an address that a joining node names", test: unit{"./wire/serve", "TestInterceptor_HelloIsWithoutTokenAndMovesNothing"}, patch: patch{
		"wire/interceptor.go", " && procedure != wirev1connect.NodeServiceHelloProcedure {", " && procedure+\"-\" != wirev1connect.NodeServiceHelloProcedure {"}},
	{name: "a node's token is sent to addresses that others name", test: unit{"./wire/rights", "TestTokenFor_OnlyGivenAddressesAreSentTheToken"}, patch: patch{
		"wire/rights/bind.go", "if slices.Contains(given, address) {", "if slices.Contains(given, address) || address != \"\" {"}},
	{name: "a bound token is accepted at every address", test: unit{"./wire/rights", "TestBind_IsAcceptedAtItsAddressOnly"}, patch: patch{
		"wire/rights/bind.go", "[]byte(\"conclave token for \" + address)", "[]byte(\"conclave token for \" + address[:0])"}},
	{name: "a bound token can be used as a token", test: unit{"./wire/rights", "TestBind_IsAcceptedAtItsAddressOnly"}, patch: patch{
		"wire/rights/bind.go", "if strings.HasPrefix(token, boundPrefix) {", "if strings.HasPrefix(token, boundPrefix+\"-\") {"}},
	{name: "a meta passes on the caller's token", test: unit{"./meta", "TestForward_BindsTheTokenToTheLeader"}, patch: patch{
		"meta/proxy.go", "p.forwards(wire.TokenOf(r.Header), leader.Address)", "wire.TokenOf(r.Header)"}},
	{name: "a client sends its token to sessions that others report", test: unit{"./client", "TestTokenFor_ReportedSessionsAreSentABoundToken"}, patch: patch{
		"client/token.go", "rights.TokenFor(c.sentToken(), address, given)", "rights.TokenFor(c.sentToken(), address, append([]string{address}, given...))"}},
	{name: "a stranger's term moves the fence", test: unit{"./wire/serve", "TestInterceptor_HelloIsWithoutTokenAndMovesNothing"}, patch: patch{
		"wire/interceptor.go", "known && !id.May(rights.Node)", "known && !id.May(rights.Open)"}},
	{name: "another publisher replaces a registration", test: unit{"./session/registry", "TestPut_AnotherIdentityReplacesNothing"}, patch: patch{
		"session/registry/publish.go", "case old.owner != nil && old.owner.Identity != sender.Identity:", "case old.owner != nil && old.owner.Identity == \"\" && sender.Identity != \"\":"}},
	{name: "a reader registers", test: unit{"./session", "TestRights_OfEachToken"}, patch: patch{
		"session/connection.go", "case id.May(rights.Publish):", "case id.May(rights.Read):"}},
	{name: "a reader is shown the ids of registrations", test: unit{"./session", "TestRights_OfEachToken"}, patch: patch{
		"session/admin.go", "known && !who.May(rights.Node)", "known && !who.May(rights.Read)"}},
	{name: "a refused token is final", test: unit{"./client", "TestToken_RefusalIsTriedAgain"}, patch: patch{
		"client/link.go", "err.Code == wire.CodeUnavailable || c.retries(err)", "err.Code == wire.CodeUnavailable"}},
	{name: "a refused token is sent again without a pause", test: unit{"./client", "TestToken_RefusalIsTriedAgain"}, patch: patch{
		"client/connect.go", "\t\t\t\tc.sleep(ctx, c.jittered(refused))\n", "\t\t\t\tc.sleep(ctx, c.jittered(refused)/20)\n"}},
	{name: "a client reads its token once", test: unit{"./session", "TestRights_RotationLosesNothing"}, patch: patch{
		"client/link.go", "\tc.readToken()\n", "\tif c.sentToken() == \"\" {\n\t\tc.readToken()\n\t}\n"}},
	{name: "an act leaves no line in the audit log", test: unit{"./wire/serve", "TestAudit_HasActsOfOperatorsAndNodes"}, patch: patch{
		"wire/serve/audit.go", "\thandle(answer)\n\tact.Status = answer.status\n\tc.Audit(act)\n", "\thandle(answer)\n\tact.Status = answer.status\n"}},
	{name: "the table of a stranger that answers is fetched", test: unit{"./wire/serve", "TestInterceptor_HelloIsWithoutTokenAndMovesNothing"}, patch: patch{
		"wire/interceptor.go", "if err == nil && req.Spec().Procedure != wirev1connect.NodeServiceHelloProcedure {", "if err == nil {"}},
	{name: "a new cluster is open", test: unit{"./cmd/conclave", "TestUp_DrawsTokens"}, patch: patch{
		"testbed/local/supervisor/tokens.go", "\tcase cfg.OwnTokens:\n", "\tcase cfg.OwnTokens && cfg.Dir == \"\":\n"}},
}
