package main

// The guards of replays that name registrations by digests.
var digestGuards = []guard{
	{name: "a session adopts values without comparing their hash", test: unit{"./session", "TestAdopt_WrongAnswersAreWanted"}, patch: patch{
		"session/adopt.go", "if values[0].GetFound() && wire.DigestFits(n.digest, values[0].GetValues()) {", "if values[0].GetFound() {"}},
	{name: "a session's own values are adopted without comparing their hash", test: unit{"./session", "TestDigests_OtherValuesOfItsOwnAreWanted"}, patch: patch{
		"session/adopt.go", "case source.Here && wire.DigestFits(d, source.Values):", "case source.Here:"}},
	{name: "a session counts the values of another epoch", test: unit{"./session", "TestAdopt_WrongAnswersAreWanted"}, patch: patch{
		"session/adopt.go", " && wire.EpochIn(slot.GetLeaderEpoch()) == n.source.Epoch {", " {"}},
	{name: "what is wanted counts as accepted", test: unit{"./session", "TestDigests_OnlyWhatIsNamedAndFoundIsRegistered"}, patch: patch{
		"session/adopt.go", "\t\to.Want(wanted)\n\t\to.Answer(nil, nil, refused)", "\t\to.Want(wanted)\n\t\to.Answer(wanted, nil, refused)"}},
	{name: "values are looked up for a client that may not register", test: unit{"./session", "TestDigests_WithoutTokenNothingIsLookedUp"}, patch: patch{
		"session/adopt.go", "\tif conn.mayPublish() == nil {\n", "\tif conn != nil {\n"}},
	{name: "a silent data node is asked again and again", test: unit{"./session", "TestAdopt_SilentNodeIsLeftAlone"}, patch: patch{
		"session/adopt.go", "silent = time.Now().Add(adoptPause)", "silent = time.Now()"}},
	{name: "a message makes a session read any number of bytes", test: unit{"./session", "TestAdopt_IsBounded"}, patch: patch{
		"session/adopt.go", "n.by.room -= proto.Size(values[0])", "n.by.room -= proto.Size(values[0]) / adoptBytes"}},
	{name: "a session looks for nothing at the data nodes", by: on("large-values-are-not-sent-again"), patch: patch{
		"session/adopt.go", "\t\ta.nodes.search(address, s)\n", "\t\tclose(s.done)\n"}},
	{name: "each client's search is a call of its own", test: unit{"./session", "TestAdopt_OneCallForManyClients"}, patch: patch{
		"session/adopt.go", "for _, s := range open {\n\t\tfor _, n", "for _, s := range open[:1] {\n\t\tfor _, n"}},
	{name: "data finds another version than the one that is named", test: unit{"./data", "TestValues_FindsWhatHasTheHash"}, patch: patch{
		"data/store/read.go", "if c.version == version && !c.withdrawn {", "if !c.withdrawn {"},
		more: []patch{{"wire/publisherdigest.go", "\tb = binary.AppendUvarint(b, uint64(version))\n", ""}}},
	{name: "data returns values that do not have the hash", test: unit{"./data", "TestValues_FindsWhatHasTheHash"}, patch: patch{
		"data/values.go", "if wire.DigestFits(d, values) {", "if d != nil {"}},
	{name: "data returns values at an older epoch", test: unit{"./data", "TestValues_FindsWhatHasTheHash"}, patch: patch{
		"data/values.go", "\tif access != wirev1.Access_ACCESS_ACCEPT {\n\t\treturn out, nil", "\tif access == wirev1.Access_ACCESS_MOVED {\n\t\treturn out, nil"}},
	{name: "an answer with values has any size", test: unit{"./data", "TestValues_AreBounded"}, patch: patch{
		"data/values.go", "\t\t\t\t*room -= len(v)", "\t\t\t\t*room -= 0 * len(v)"}},
	{name: "the hash of values does not cover the registration", test: unit{"./wire", "TestDigestFits_OnlyWhatItNames"}, patch: patch{
		"wire/publisherdigest.go", "\tadd(id)\n", ""}},
	{name: "a client names what data may not have", test: unit{"./client", "TestReplay_NamesWhatDataHas"}, patch: patch{
		"client/digest.go", "p.stored.version >= p.version && ", ""}},
	{name: "a client does not send what is wanted", test: unit{"./client", "TestReplay_SendsWhatIsWanted"}, patch: patch{
		"client/digest.go", "\t\tl.queue(p)\n", ""}},
	{name: "a client names values at a session that does not take digests", test: unit{"./client", "TestReplay_OlderSessionIsSentEverything"}, patch: patch{
		"client/link.go", "if welcome.GetWelcome().GetDigests() {", "if welcome != nil {"}},
	{name: "a message names any number of values", test: unit{"./client", "TestReplay_SendsWhatIsWanted"}, patch: patch{
		"client/digest.go", " + p.size()/digestShare", ""}},
}
