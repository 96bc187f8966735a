// Package zktest gives tests a real ZooKeeper.
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		server := zktest.New(t)
//		conn, err := zklatch.Dial(zklatch.ConnConfig{Servers: []string{server.Addr}, ...})
//		// ... below server.Path, which is this test's own
//	}
//
// # Which server
//
// ZOOKEEPER_ADDR (host:port) names one; else it is a container of ZOOKEEPER_IMAGE, or of
// the first of zookeeper:3.8 and zookeeper-local:3.8 that the Docker engine has
// (.ci/zookeeper-image builds the second without a registry). It is started by the first
// test that wants it, is shared by the tests of the binary, and only looked for when
// TEST_ALL=1: without that, tests need nothing but Go. Its tick is 200 ms, so that
// sessions may be short; they may be no longer than twenty of them, which is 4 s.
//
// What is missing is skipped aloud: the skip names what is missing and what would help.
// With REQUIRE_DOCKER=1 it fails instead. A server that ZOOKEEPER_ADDR names and that
// does not answer always fails: somebody meant it.
//
// # What stays behind
//
// Nothing, when Main returns. A test binary that is killed leaves its container for at
// most half an hour: the engine was told to end it then, and it removes itself.
package zktest
