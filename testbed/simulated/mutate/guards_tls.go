package main

// The guards of TLS: which certificates are accepted, and for what.
var tlsGuards = []guard{
	{name: "any role may call any procedure over TLS", test: unit{"./wire/serve", "TestCheckCaller_OtherRolesAreRefused"}, patch: patch{
		"wire/serve/callers.go", "if certs.PeerHasRole(r.TLS, roles...) {", "if certs.PeerHasRole(r.TLS, conclave.RoleMeta, conclave.RoleSession, conclave.RoleData) || len(roles) == 0 {"}},
	{name: "any node may carry a term", test: unit{"./wire/serve", "TestCheckCaller_OtherRolesAreRefused"}, patch: patch{
		"wire/serve/callers.go", "if wire.HasTerm(r.Header) {", "if wire.HasTerm(r.Header) && len(roles) == 0 {"}},
	{name: "a certificate that no CA verifies has a role", test: unit{"./wire/serve", "TestCheckCaller_OtherRolesAreRefused"}, patch: patch{
		"internal/certs/role.go", "return len(state.VerifiedChains) > 0 && hasRole(state.VerifiedChains[0][0], roles...)", "return len(state.PeerCertificates) > 0 && hasRole(state.PeerCertificates[0], roles...)"}},
	{name: "certificates that cannot be used replace those in use", test: unit{"./internal/certs", "TestSet_ReloadsForNewConnections"}, patch: patch{
		"internal/certs/set.go", `		return fmt.Errorf("%s is not valid with %s: %w", file, CAFile, err)`, "\t\t_ = err"}},
	{name: "a node calls any process with a certificate", test: unit{"./internal/certs", "TestToNodes_OnlyNodesAreCalled"}, patch: patch{
		"internal/certs/config.go", "if !PeerHasRole(&state, conclave.RoleMeta, conclave.RoleSession, conclave.RoleData) {", "if !PeerHasRole(&state, conclave.RoleMeta, conclave.RoleSession, conclave.RoleData) && len(state.VerifiedChains) == 0 {"}},
	{name: "a token is sent to a process without a role", test: unit{"./wire/serve", "TestTLS_TokenIsSentToNodesOnly"}, patch: patch{
		"internal/certs/config.go", "\tc.VerifyConnection = func(state tls.ConnectionState) error {", "\t_ = func(state tls.ConnectionState) error {"}},
	{name: "callers do not wait for the new files", test: unit{"./internal/certs", "TestSet_CallersAtTheSameTimeUseTheNewFiles"}, patch: patch{
		"internal/certs/set.go", "\tcase reading != nil:\n\t\t<-reading\n", ""}},
}
