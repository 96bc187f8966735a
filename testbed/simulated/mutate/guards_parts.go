package main

// The guards of lists that are sent in parts, and of pages for readers.
var partGuards = []guard{
	{name: "parts of two lists make one", test: unit{"./wire", "TestAssembly_PartThatDoesNotFitIsRefused"}, patch: patch{
		"wire/part.go", "hash != a.hash || ", ""}},
	{name: "a list of parts is not compared with its hash", test: unit{"./wire", "TestAssembly_PartThatDoesNotFitIsRefused"}, patch: patch{
		"wire/part.go", "; sum != hash {", "; sum == 0 {"}},
	{name: "publishers of a list of parts are not compared with their hash", test: unit{"./wire", "TestAssembly_PublishersAreCompared"}, patch: patch{
		"wire/part.go", "got != p.GetPublishersHash() {", "got == 0 {"}},
	{name: "parts are held whatever their size", test: unit{"./wire", "TestAssembly_IsBounded"}, patch: patch{
		"wire/part.go", "a.bytes > cmp.Or(a.Limit, MaxList) {", "a.bytes < 0 {"}},
	{name: "a list is not kept while it is read in parts", test: unit{"./data/store", "TestContinue_PartsAreOfOneVersion"}, patch: patch{
		"data/store/delta.go", "return x.reads == 0 }", "return x.reads >= 0 }"}},
	{name: "a list is continued with other publishers", test: unit{"./data/store", "TestContinue_PartsAreOfTheSamePublishers"}, patch: patch{
		"data/store/part.go", " && c.PublishersHash() == want.GetPublishersHash()", ""}},
	{name: "a list of any size is sent", test: unit{"./data/store", "TestCut_OnlyLargeLists"}, patch: patch{
		"data/store/part.go", "case c.bytes > most:", "case c.bytes < 0:"}},
	{name: "a change between two parts is not read", test: unit{"./session/registry", "TestAssemble_ChangeBetweenPartsIsReadAfterwards"}, patch: patch{
		"session/registry/topic.go", "\t\ttp.parts.again = true", "\t\ttp.parts.again = false"}},
	{name: "parts of an earlier leader are continued", test: unit{"./session/registry", "TestAssemble_BeginsAgain"}, patch: patch{
		"session/registry/part.go", "if tp.parts != nil && tp.parts.epoch != epoch {", "if false {"}},
	{name: "only the mark with the last part counts", test: unit{"./session/registry", "TestAssemble_MarksOfAllPartsCount"}, patch: patch{
		"session/registry/part.go", "until.After(p.until) {", "!until.IsZero() {"}},
	{name: "a client that comes while a list is read in parts is refused", test: unit{"./session/registry", "TestRefuse_ClientThatComesBetweenPartsStays"}, patch: patch{
		"session/registry/read.go", "} else {\n\t\t\t\ttp.ask()\n\t\t\t}", "}\n\t\t\ttp.ask()"}},
	{name: "a push overtakes the parts of an older one", test: unit{"./session/registry", "TestOutbox_PartsAreOfOneVersion"}, patch: patch{
		"session/registry/outbox.go", "o.parts.has(subscription) || ", ""}},
	{name: "that an earlier list was too large is reported after a later one", test: unit{"./session/registry", "TestOutbox_WithheldIsOfTheLatestList"}, patch: patch{
		"session/registry/outbox.go", "	o.forgetWithheld(p.ID)\n	if o.newest == nil {", "	if o.newest == nil {"}},
	{name: "that a list is too large is reported before an earlier one", test: unit{"./session/registry", "TestOutbox_WithheldIsOfTheLatestList"}, patch: patch{
		"session/registry/outbox.go", "!waits && !o.parts.has(id)", "!waits || !o.parts.has(id)"}},
	{name: "a session reads a list above its limit", test: unit{"./session/registry", "TestTooLarge_OfTheLimitOfThisSession"}, patch: patch{
		"session/registry/part.go", "bytes > uint64(most) {", "bytes > 1<<40 {"}},
	{name: "a client asks again for a list above its limit", test: unit{"./client", "TestParts_ListAboveTheLimitIsAnError"}, patch: patch{
		"client/part.go", "bytes > uint64(l.client.config.MaxListBytes) {", "bytes > 1<<40 {"}},
	{name: "an older client is sent what it cannot receive", test: unit{"./session/registry", "TestOffer_OlderClientIsRefusedWhatItCannotReceive"}, patch: patch{
		"session/registry/push.go", " || d.bytes > wire.MaxMessage && !s.to.Parts {", " {"}},
	{name: "keys of a list are selected under the registry's lock", test: unit{"./session", "TestAdmin_ListsHoldNoLock"}, patch: patch{
		"session/admin.go", "\t\twith(a.registry, func(r *registry.Registry) func() { return take(r, slot) })()", "\t\ta.registry.do(func(r *registry.Registry) { take(r, slot)() })"}},
	{name: "links of pages contain the ids of registrations", test: unit{"./session", "TestAdmin_PagesOfReadersHideIDs"}, patch: patch{
		"session/admin.go", "string { return k.shown },", "string { return k.id },"}},
	{name: "a selection holds every key", test: unit{"./wire/serve", "TestSmallest_HoldsFewKeys"}, patch: patch{
		"wire/serve/page.go", "len(s.keys) >= 2*s.limit {", "len(s.keys) < 0 {"}},
	{name: "a datum is listed whatever its size", test: unit{"./data", "TestFirstValues_AreBounded"}, patch: patch{
		"data/admin.go", "bytes -= len(v); bytes < 0 {", "bytes -= len(v); false {"}},
}
