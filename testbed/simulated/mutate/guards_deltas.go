package main

// The guards of lists that travel as deltas.
var deltaGuards = []guard{
	{name: "values of a delta are not compared with their hash", test: unit{"./wire", "TestDelta_FitsItsBaseOnly"}, patch: patch{
		"wire/delta.go", "got != d.GetValuesHash() {", "got == 0 {"}},
	{name: "publishers of a delta are not compared with their hash", test: unit{"./wire", "TestDelta_FitsItsBaseOnly"}, patch: patch{
		"wire/delta.go", "got != d.GetPublishersHash() {", "got == 0 {"}},
	{name: "a delta may make a list of any length", test: unit{"./wire", "TestDelta_FitsItsBaseOnly"}, patch: patch{
		"wire/delta.go", "\tif count > most {", "\tif count < 0 {"}},
	{name: "a push that was not sent counts as received", test: unit{"./session/registry", "TestDeltas_RebuiltListIsTheDatum"}, patch: patch{
		"session/registry/outbox.go", "\t\tbase = before.base\n", "\t\t_ = before\n"}},
	{name: "deltas are sent to any client", test: unit{"./session/registry", "TestDeltas_RebuiltListIsTheDatum"}, patch: patch{
		"session/registry/delta.go", "if s.to.Deltas && d.size", "if d.size"}},
	{name: "a delta that does not fit is asked for again", test: unit{"./session/registry", "TestDeltas_UnfitAnswerIsReadAgainAsAWhole"}, patch: patch{
		"session/registry/push.go", "if tp.whole = d == nil; tp.whole {", "if d == nil {"}},
	{name: "whole lists do not pace a topic", test: unit{"./session/registry", "TestPace_CountsWhatEachSubscriberIsSent"}, patch: patch{
		"session/registry/outbox.go", "p.topic.bytes += waiting.size()", "p.topic.bytes += min(waiting.size(), wire.DeltaLeast)"}},
	{name: "a client asks for the whole list for each delta", test: unit{"./client", "TestDelta_SubscriberSeesWholeLists"}, patch: patch{
		"client/delta.go", "if l.unfit[s] {", "if l.unfit == nil {"}},
}
