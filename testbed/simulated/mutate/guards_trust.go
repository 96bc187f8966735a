package main

// The guards against what clients, peers and web pages of bad intent may send.
var trustGuards = []guard{
	{name: "a page of another origin may act", test: unit{"./wire/serve", "TestRouter_PagesOfOthersAreRefused"}, patch: patch{
		"wire/serve/browser.go", "\t\tchecked.ServeHTTP(w, r)", "\t\tnext.ServeHTTP(w, r)\n\t\t_ = checked"}},
	{name: "a name that was rebound is the node's", test: unit{"./wire/serve", "TestRouter_PagesOfOthersAreRefused"}, patch: patch{
		"wire/serve/browser.go", "if r.ProtoMajor == 1 && !ownHost(r.Host, names) {", "if r.ProtoMajor == 0 && !ownHost(r.Host, names) {"}},
	{name: "a message of a client has any number of fields", test: unit{"./wire/serve", "TestClientCodec_FieldsAreBoundedBeforeTheyAreRead"}, patch: patch{
		"wire/serve/codec.go", "if c.fields--; c.fields < 0 {", "if c.fields--; c.fields < -1<<40 {"}},
	{name: "a refusal repeats what a client sends", test: unit{"./session", "TestRefusals_AreShort"}, patch: patch{
		"session/register.go", "Id: cut(id, maxNameBytes)", "Id: id"}},
	{name: "a diff may be at any epoch", test: unit{"./session/registry", "TestDiff_EpochThatCannotBeTrueIsRefused"}, patch: patch{
		"session/registry/fence.go", "case !epoch.Plausible(s.epoch):", "case s.epoch.Plausible(epoch) && epoch.IsZero():"}},
	{name: "a slot is finished for any epoch", test: unit{"./data", "TestHandOver_SourceDropsCopyWhenTableIsStable"}, patch: patch{
		"data/source.go", " && epoch.Plausible(r.epoch) {", " {"}},
	{name: "a version that a reader claims has no bound", test: unit{"./data/store", "TestRead_ClaimsRaiseCounterByOneBase"}, patch: patch{
		"data/store/read.go", "claimed := min(version, s.claims);", "claimed := version;"}},
	{name: "a version that a session claims has no bound", test: unit{"./data", "TestServe_ClaimsOfSessionsAreBounded"}, patch: patch{
		"data/migrate.go", "min(m.pushed, r.base+conclave.VersionBase)", "m.pushed"}},
	{name: "a subscription that claims too much stays", test: unit{"./session/registry", "TestFetched_ClaimThatCannotBeTrueEndsTheSubscription"}, patch: patch{
		"session/registry/push.go", "if len(asked) == 0 {", "if len(asked) >= 0 {"}},
}
