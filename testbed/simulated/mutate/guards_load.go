package main

// The guards that keep an overload from becoming a collapse.
var loadGuards = []guard{
	{name: "a client sends all that it has at once", test: unit{"./client", "TestLink_FullSessionIsNotLeft"}, by: on("overload-by-six-times", "overload-by-six-times@2"), patch: patch{
		"client/window.go", "\tcase len(w.sent) == 0:\n\t\treturn w.size\n\tcase w.messages >= windowMessages:\n\t\treturn 0\n\t}\n", "\tcase w.messages < 1<<20:\n\t\treturn 1 << 30\n\t}\n"}},
	{name: "a client has any number of messages in flight", test: unit{"./client", "TestWindow_NewerVersionsFillIt"}, patch: patch{
		"client/window.go", "case w.messages >= windowMessages:", "case w.messages >= 1<<20:"}},
	{name: "a newer version frees the window of the one in flight", test: unit{"./client", "TestWindow_NewerVersionsFillIt"}, patch: patch{
		"client/window.go", "\tm.open++\n", "\tm.open++\n\tw.accept(p, math.MaxInt64, m.began)\n"}},
	{name: "a client's window does not follow its session", test: unit{"./client", "TestWindow_SizeFollowsTimeToAcceptance"}, patch: patch{
		"client/window.go", "w.size = max(w.size/2, windowLeast)", "w.size = max(w.size, windowLeast)"}},
	{name: "a refused publication stays in the window", test: unit{"./client", "TestLink_RefusalsFreeTheWindow"}, patch: patch{
		"client/link.go", "\tif l.windows.drop(p, time.Now()) {", "\tif len(l.owed) < 0 {"}},
	{name: "pings wait behind what is in flight", test: unit{"./client", "TestLink_FullSessionIsNotLeft"}, patch: patch{
		"client/link.go", "case l.number == 0 || l.idle.Load():", "case l.number > 0 || l.idle.Load():"}},
	{name: "a client counts rounds in which its process had no turns", test: unit{"./client", "TestLink_OwnLatenessIsNotSilence"}, patch: patch{
		"client/link.go", "if !turning.Load() {", "if l.ping > 0 {"}},
	{name: "a ping by a call does not keep the stream", test: unit{"./session", "TestPing_KeepsAConnectionWhoseStreamIsFull"}, patch: patch{
		"session/connect.go", "\tconn.extend()\n\treturn connect.NewResponse(&wirev1.PingResponse{}), nil", "\treturn connect.NewResponse(&wirev1.PingResponse{}), nil"}},
	{name: "any client may ping for another", test: unit{"./session", "TestPing_KeepsAConnectionWhoseStreamIsFull"}, patch: patch{
		"session/clients.go", "conn != nil && conn.Client == client {", "conn != nil {"}},
	{name: "registrations count as pings", test: unit{"./session", "TestPing_TooLateEndsTheConnection"}, patch: patch{
		"session/connect.go", "case (ended || m.GetPing() > 0) && !conn.Renew(", "case !conn.Renew("}},
	{name: "a late ping by a call counts", test: unit{"./session", "TestPing_TooLateEndsTheConnection"}, patch: patch{
		"session/connect.go", "\tif !conn.Renew(time.Now(), c.config.ClientLease) {\n\t\tconn.abort()", "\tif !conn.Renew(time.Now(), 1000*c.config.ClientLease) {\n\t\tconn.abort()"}},
	{name: "Publish never waits", test: unit{"./client", "TestPublish_WaitsWhileTooMuchWaits"}, patch: patch{
		"client/publication.go", "for !c.closed && c.waiting >= c.config.MaxWaiting {", "for !c.closed && c.waiting < 0 {"}},
	{name: "any number of clients is welcomed at a time", test: unit{"./session", "TestArrivals_OthersWaitInOrder"}, patch: patch{
		"session/arrivals.go", "arrivalPlaces = 64", "arrivalPlaces = 1 << 16"}},
	{name: "a client that has arrived keeps its place", test: unit{"./session", "TestArrivals_OthersWaitInOrder"}, patch: patch{
		"session/connect.go", "\t\tif m.GetHello() == nil {\n\t\t\tarrived()", "\t\tif m.GetHello() == nil && conn.asked && !conn.asked {\n\t\t\tarrived()"}},
	{name: "a slow data node is sent as much as a quick one", test: unit{"./session", "TestWriter_SizeFollowsTheNode"}, patch: patch{
		"session/writer.go", "case took > writeSlow:", "case took > callLimit:"}},
	{name: "a round of comparisons has no budget", test: unit{"./data", "TestReplica_ComparisonsFitIntoARound"}, patch: patch{
		"data/repair.go", "if cost > 0 && cost >= room {", "if cost > 0 && cost < 0 {"}},
	{name: "comparisons are added to those not answered", test: unit{"./data", "TestReplica_ComparisonsFitIntoARound"}, patch: patch{
		"data/repair.go", "if behind[session] || r.postpone(session) {", "if r.postpone(session) {"}},
}
