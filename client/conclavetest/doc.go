// Package conclavetest is a registry inside a test: the servers of the cluster, with
// their database, in the process of `go test`.
//
//	func TestGreeter(t *testing.T) {
//		c := conclavetest.Start(t)
//		greeter := New(c.Addresses()) // the program under test, which is a client
//		...
//		c.KillLeader(t)
//		c.KillSession(t, c.Addresses()[0])
//		c.Away(t, func() { ... })
//	}
//
// A cluster listens on free ports of loopback, needs no token, and has ended, with all
// its goroutines, when the test's cleanup has; several may run at once. It changes nothing
// of the process: no signal, no GOGC, no log but that formatter and output of logrus's
// standard logger are wrapped, which leaves out the lines of the embedded server. A node
// that is down keeps its port (on Linux; elsewhere another program may take it). Time is
// real: a cluster cannot run in a testing/synctest bubble.
//
// # What it costs
//
// Start and the cleanup take 85 ms of processor time, a third of it for the SQL of the first
// term. On two processors at a load of 11, which others made, Start took 66 to 609 ms, with
// medians of 91 to 160 ms; two at once took twice as long.
//
// The database is an embedded MySQL server, go-mysql-server. A module whose tests import
// this package gets 43 indirect requirements in its go.mod; its programs link none of the
// database. The first build of such a test takes a minute or two, and each test binary has
// 80 MB, which are linked in some seconds.
//
// README.md has the lines that a go.mod needs. Without the one for go-icu-regex the
// server's library for regular expressions is downloaded, and each start of a test binary
// takes 0.3 s of processor time more.
package conclavetest
