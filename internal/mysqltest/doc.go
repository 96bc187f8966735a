// Package mysqltest provides tests with the database servers that Conclave
// supports: the embedded one, MySQL and MariaDB. A test is written once and run
// on each:
//
//	func TestMain(m *testing.M) { mysqltest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		mysqltest.Each(t, func(t *testing.T, s *mysqltest.Server) {
//			db, err := conclavesql.Open(s.DSN, conclavesql.Options{})
//			// ...
//		})
//	}
//
// # Which servers
//
//	embedded   one for each test, in this process, on a port of loopback
//	mysql      one for the test binary, in a container of MYSQL_IMAGE
//	mariadb    likewise, of MARIADB_IMAGE
//
// A real server is started by the first test that needs it, and only with
// TEST_ALL=1; without it, tests need only Go. TEST_SERVERS chooses some of the kinds,
// separated by commas (mysql, mariadb, group, galera). Each test has its own database
// on the server, which is dropped when the test ends. The default image of MySQL
// is mysql:8.4, or mysql-local:9 if the engine does not have it
// (.ci/mysql-image builds the latter without a registry); that of MariaDB is
// mariadb:10.11 or mariadb-local:10.11. The server's version is printed on
// standard output.
//
// If a server is missing, the test is skipped with a message that says what is
// missing and how to provide it. With REQUIRE_DOCKER=1 the test fails instead.
//
// # Replicated servers
//
// NewReplicas returns three servers that replicate each other, as a MySQL replication
// group or as a Galera cluster. They are containers of the same images, started by the
// first test that needs them and shared by all of a binary; each test has its own
// database, and begins when all three are members. They are killed, paused, cut off
// from each other, and made writable by force.
//
// # At the same time
//
// Tests in real time mostly wait. AtOnce and OnReplicas run a test on both kinds of
// servers in parallel, and start those that are missing in parallel. Within a kind,
// tests run one after the other, because they pause and kill its servers.
//
// # Faults
//
// A container can be paused and restarted (as after a crash: its process is
// killed) and keeps its loopback port. The embedded server cannot; tests that need
// these faults are skipped on it.
//
// # Cleaning up
//
// When Main returns, nothing is left. The containers of a test binary that was
// killed are removed by the engine a minute after the binary's own limit (-timeout).
package mysqltest
