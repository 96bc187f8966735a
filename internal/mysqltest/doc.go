// Package mysqltest gives tests the servers that Conclave is meant for: the embedded
// one, a real MySQL and a real MariaDB. A test is written once and played on each:
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
//	mysql      one for the test binary: MYSQL_DSN, or a container of MYSQL_IMAGE
//	mariadb    likewise: MARIADB_DSN, MARIADB_IMAGE
//
// A real server is started by the first test that wants it, and only when TEST_ALL=1:
// without that, tests need nothing but Go. Each test has a database of its own on it,
// dropped when the test is over. Without MYSQL_IMAGE it is mysql:8.4, if that image is
// here, or else mysql-local:9 (.ci/mysql-image builds it without a registry); MariaDB
// is mariadb:10.11 or mariadb-local:10.11. The server says on standard output what it is.
//
// What is missing is skipped aloud: the skip names what is missing and what would
// help. With REQUIRE_DOCKER=1 it fails instead. A server that MYSQL_DSN names and that
// does not answer always fails: somebody meant it. The user of such a DSN must be
// allowed to create databases.
//
// # What can be done to them
//
// A container can be paused, restarted (as by a crash: its process is killed) and
// goes on at the same port of loopback. A server named by a DSN can not: tests that
// need it are skipped, aloud.
//
// # What stays behind
//
// Nothing, when Main returns. A test binary that is killed leaves its containers for
// at most half an hour: the engine was told to end them then, and they remove
// themselves.
package mysqltest
