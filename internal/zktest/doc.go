// Package zktest provides tests with a real ZooKeeper.
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		server := zktest.New(t)
//		client, err := zklatch.Dial(zklatch.Config{Servers: []string{server.Addr}, ...})
//		// ... below server.Path, which only this test uses
//	}
//
// # Which server
//
// ZOOKEEPER_ADDR (host:port) names the server. Without it, the server is a
// container of ZOOKEEPER_IMAGE, by default of zookeeper-local:3.8, which
// .ci/zookeeper-image builds without a registry. It is started by the first
// test that needs it and shared by the tests of the binary, and only used with
// TEST_ALL=1; without it, tests need only Go. Its tick is 200 ms, so that sessions can be short;
// the longest session is twenty ticks, 4 s.
//
// If the server is missing, the test is skipped with a message that names what
// is missing and how to provide it. With REQUIRE_DOCKER=1 the test fails
// instead. If a server that ZOOKEEPER_ADDR names does not answer, the test
// always fails.
package zktest
